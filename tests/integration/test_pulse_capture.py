"""Capture through real PortAudio, from PulseAudio's virtual microphones."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pulse import Pulse, private_pulse, write_tones

from cosyd.ring import RingReader

PATIENCE_S = 30.0
RATE_HZ = 48_000
TONES_HZ = [400, 1000, 1600, 2200]

# A child that captures until its standard input closes and prints its events, one a line.
CHILD = """
import dataclasses, json, pathlib, sys, threading
from cosyd.capture import Capture
from cosyd.config.schema import SourceConfig

def report(event):
    print(json.dumps({"event": type(event).__name__, **dataclasses.asdict(event)}), flush=True)

stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
Capture(SourceConfig(**json.loads(sys.argv[1])), pathlib.Path(sys.argv[2])).run(stop, report)
"""


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    with private_pulse() as pulse:
        yield pulse


class Child:
    """A capture process and the events that it has printed."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def events(self) -> list[dict]:
        lines = self._log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def of(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["event"] == kind]

    def wait_for(self, kind: str, count: int = 1) -> dict:
        deadline = time.monotonic() + PATIENCE_S
        while len(found := self.of(kind)) < count:
            assert self.process.poll() is None, "the capture process has ended"
            assert time.monotonic() < deadline, self.events[-5:]
            time.sleep(0.02)
        return found[count - 1]


@contextlib.contextmanager
def capturing(pulse: Pulse, ring: Path, **config) -> Iterator[Child]:
    log = pulse.folder / "events"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                CHILD,
                json.dumps({"device": "array", "channels": 4, **config}),
                str(ring),
            ],
            env=pulse.environment,
            stdin=subprocess.PIPE,
            stdout=output,
            text=True,
        )
    try:
        yield Child(process, log)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
        assert not ring.exists()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def heard(reader: RingReader, seconds: float) -> np.ndarray:
    """The next frames as float [n, channels], ±1."""
    parts, have = [], 0
    deadline = time.monotonic() + PATIENCE_S
    while have < seconds * RATE_HZ:
        assert time.monotonic() < deadline, f"only {have} frames"
        if (block := reader.read(RATE_HZ)) is None:
            reader.wait(0.5)
            continue
        parts.append(block.frames / -float(np.iinfo(block.frames.dtype).min))
        assert reader.intact(block)
        have += len(block.frames)
    return np.concatenate(parts)


@pytest.mark.parametrize("source_type", ["portaudio", "pyaudio"])
def test_each_channel_carries_its_own_tone(pulse, tmp_path, source_type):
    """Four channels at 48 kHz through a null sink, its monitor, ALSA, PortAudio, and the ring."""
    if source_type == "pyaudio":
        pytest.importorskip("pyaudio")
    recording = tmp_path / "tones.wav"
    write_tones(recording, TONES_HZ, seconds=20)
    pulse.plug_in("array")
    with capturing(pulse, tmp_path / "ring", type=source_type, rate_hz=RATE_HZ) as child:
        opened = child.wait_for("DeviceOpened")
        assert (opened["rate_hz"], opened["channels"], opened["format"]) == (RATE_HZ, 4, "s16")
        with (
            pulse.playing(recording, "array"),
            RingReader.attach(tmp_path / "ring") as reader,
        ):
            deadline = time.monotonic() + PATIENCE_S
            while np.abs(heard(reader, 0.1)).max() < 0.1:
                assert time.monotonic() < deadline, "the player has not begun"
            heard(reader, 0.2)
            samples = heard(reader, 1.0)[:RATE_HZ]
        child.wait_for("CaptureProgress", 2)
        assert child.of("DeviceLost") == []
    spectrum = np.abs(np.fft.rfft(samples, axis=0)) / (RATE_HZ / 2)  # bins of 1 Hz
    for channel, tone_hz in enumerate(TONES_HZ):
        others = [hz for hz in TONES_HZ if hz != tone_hz]
        assert spectrum[tone_hz, channel] == pytest.approx(0.5, abs=0.05)
        assert spectrum[others, channel].max() < 0.005


def test_a_device_without_a_configured_rate_is_opened_at_one_it_takes(pulse, tmp_path):
    pulse.plug_in("array")
    with capturing(pulse, tmp_path / "ring", channels=None) as child:
        opened = child.wait_for("DeviceOpened")
        assert opened["rate_hz"] in (44_100, 48_000)
        assert opened["channels"] == 32  # what ALSA's plugin claims


def test_unplugged_while_capturing_and_plugged_in_again(pulse, tmp_path):
    module = pulse.plug_in("array")
    with capturing(pulse, tmp_path / "ring", rate_hz=RATE_HZ) as child:
        child.wait_for("DeviceOpened")
        with RingReader.attach(tmp_path / "ring") as reader:
            heard(reader, 0.3)
            unplugged = time.monotonic()
            pulse.unplug(module)
            lost = child.wait_for("DeviceLost")
            time.sleep(1.0)
            pulse.plug_in("array")
            opened = child.wait_for("DeviceOpened", 2)
            away_s = time.monotonic() - unplugged
            gaps = child.of("GapRecorded")
            samples = []
            while not samples or not samples[-1].gap:
                if (block := reader.read(RATE_HZ)) is not None:
                    samples.append(block)
                else:
                    reader.wait(1)
    assert len(gaps) == 1
    assert gaps[0]["sample"] == lost["sample"]
    assert opened["reopened"] and opened["sample"] == gaps[0]["sample"] + gaps[0]["frames"]
    assert 1.0 < gaps[0]["frames"] / RATE_HZ < away_s + 1.0
    assert (samples[-1].index, samples[-1].gap) == (opened["sample"], gaps[0]["frames"])


def test_devices_are_listed(pulse):
    pulse.plug_in("array")
    code = "from cosyd.capture import list_devices\nfor d in list_devices(): print(d.name, d.channels)"
    answer = subprocess.run(
        [sys.executable, "-c", code], env=pulse.environment, capture_output=True, text=True, check=True
    )
    assert "array 32" in answer.stdout.splitlines()
    assert answer.stderr == "", "ALSA's and JACK's chatter is kept away"
