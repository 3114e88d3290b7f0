"""The commands that look at microphones, with a real one: PortAudio on a PulseAudio null sink."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulse import Pulse, private_pulse, write_tones

NAME = "doctors_array"


@pytest.fixture
def array(tmp_path: Path) -> Iterator[Pulse]:
    """Field case 7: four channels; the first is digital zero, the others carry tones."""
    tones = tmp_path / "tones.wav"
    write_tones(tones, [0, 500, 1000, 1500], seconds=60)
    with private_pulse() as pulse:
        pulse.plug_in(NAME)
        with pulse.playing(tones, NAME):
            yield pulse


def cosyd(pulse: Pulse, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    folders = {f"COSYD_PATHS__{name.upper()}": str(tmp_path / name) for name in ("state", "cache", "runtime")}
    return subprocess.run(
        [sys.executable, "-m", "cosyd", *arguments],
        env={**pulse.environment, **folders},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_devices_doctor_and_level_see_the_microphone(array: Pulse, tmp_path: Path) -> None:
    listed = cosyd(array, tmp_path, "devices", "--json")
    (found,) = [device for device in json.loads(listed.stdout) if NAME in device["name"]]
    assert listed.stderr == ""  # the audio libraries' own chatter is not ours

    settings = [f"--set=sources.mic.{text}" for text in (f"device={NAME}", "channels=4")]
    report = json.loads(cosyd(array, tmp_path, "doctor", "--json", *settings).stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["audio.source.mic"]["status"] == "ok"
    assert checks["audio.signal.mic"]["message"] == "channel 0 silent"
    assert "channel_map" in checks["audio.signal.mic"]["remedy"]

    level = cosyd(array, tmp_path, "level", "--seconds", "2.5", *settings)
    assert level.returncode == 0, level.stderr
    assert "0: -120.0 (-120.0)  1: -9.0 (-6.0)  2: -9.0 (-6.0)  3: -9.0 (-6.0) dBFS" in level.stdout
    assert level.stderr.splitlines()[-1] == "cosyd: channel 0 silent"
    assert found["channels"] >= 4


def test_a_microphone_that_is_not_there_is_3(array: Pulse, tmp_path: Path) -> None:
    done = cosyd(array, tmp_path, "level", "--seconds", "30", "--set=sources.mic.device=absent")
    assert done.returncode == 3
    assert "absent" in done.stderr
