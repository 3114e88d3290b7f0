"""``cosyd devices`` on a scripted audio system, ``cosyd level`` and the doctor's ear on recordings."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cosyd.capture.device import DeviceInfo
from cosyd.cli.doctor.audio import signal, source_exists
from cosyd.cli.tap import Tap
from cosyd.config.paths import SHARED_MEMORY
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, DeviceBusy
from cosyd.spec import AudioSpec

soundfile = pytest.importorskip("soundfile")

MIC = DeviceInfo(2, "USB Mic (hw:1,0)", "ALSA", 2, 48_000, is_default=True)
ARRAY = DeviceInfo(5, "Array\x1b[31m", "ALSA", 8, 16_000)


class FakeSystem:
    """Two devices: one takes two rates, the other is in use."""

    def __init__(self, devices: list[DeviceInfo]) -> None:
        self._devices = devices
        self.closed = False

    def refresh(self) -> None: ...

    def devices(self) -> list[DeviceInfo]:
        return self._devices

    def supports(self, device: DeviceInfo, spec: AudioSpec) -> bool:
        if device is ARRAY:
            raise DeviceBusy("in use")
        return spec.rate_hz in (44_100, 48_000) and spec.channels == 2

    def close(self) -> None:
        self.closed = True


def use(monkeypatch: pytest.MonkeyPatch, *devices: DeviceInfo) -> FakeSystem:
    system = FakeSystem(list(devices))
    monkeypatch.setattr("cosyd.cli.devices.audio_system", lambda: system)
    return system


def test_devices(cosyd, monkeypatch: pytest.MonkeyPatch) -> None:
    system = use(monkeypatch, MIC, ARRAY)
    assert cosyd("devices").out.splitlines() == [
        "   INDEX  NAME              CHANNELS  RATE      SYSTEM",
        "*  2      USB Mic (hw:1,0)  2         48000 Hz  ALSA",
        "   5      Array�[31m        8         16000 Hz  ALSA",
    ]
    assert system.closed


def test_devices_with_their_rates(cosyd, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MIC, ARRAY)
    assert "44100, 48000 Hz" in cosyd("devices", "--rates").out
    listed = json.loads(cosyd("devices", "--rates", "--json").out)
    assert [(entry["name"], entry["rates_hz"]) for entry in listed] == [
        ("USB Mic (hw:1,0)", [44_100, 48_000]),
        ("Array\x1b[31m", []),
    ]


def test_no_devices_is_a_note_not_a_result(cosyd, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    done = cosyd("devices")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("cosyd: no input devices")
    assert json.loads(cosyd("devices", "--json").out) == []


# --- listening -----------------------------------------------------------------------------------------


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Field case 7: four channels of 32 bits, zeros on the first, tones on the others; 1.5 s."""
    t = np.arange(24_000) / 16_000
    tones = [np.sin(2 * np.pi * hertz * t) * 0.1 for hertz in (500, 1000, 1500)]
    path = tmp_path / "array.wav"
    soundfile.write(path, np.stack([np.zeros_like(t), *tones], axis=1), 16_000, subtype="PCM_32")
    return path


def source(path: Path, **settings: object) -> SourceConfig:
    return SourceConfig(name="array", type="file", path=str(path), realtime=False, **settings)


@pytest.fixture(autouse=True)
def nothing_left() -> object:
    threads = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= threads
    assert not list(SHARED_MEMORY.glob(f"cosyd-tap-{os.getpid()}-*"))  # other processes test, too


def test_a_tap_measures_each_channel(recording: Path) -> None:
    with Tap(source(recording), 100) as tap:
        levels = [level for level in tap.levels() if level is not None]
    assert len(levels) == 15
    rms_db = 20 * np.log10(0.1 / np.sqrt(2))
    for level in levels:
        assert level.rms_db[0] == -120.0
        assert level.rms_db[1:] == pytest.approx([rms_db] * 3, abs=0.1)


def test_a_tap_raises_what_capture_raises(tmp_path: Path) -> None:
    with Tap(source(tmp_path / "absent.wav"), 100) as tap, pytest.raises(AudioError, match=r"absent\.wav"):
        list(tap.levels())


def test_the_doctor_hears_a_silent_channel(recording: Path) -> None:
    check = signal(source(recording))
    assert (check.status, check.message) == ("warn", "channel 0 silent")
    assert check.remedy == "leave it out with sources.array.channel_map"


def test_the_doctor_hears_all_channels(recording: Path, tmp_path: Path) -> None:
    samples, rate_hz = soundfile.read(recording)
    soundfile.write(tmp_path / "mono.wav", samples[:, 1], rate_hz)
    check = signal(source(tmp_path / "mono.wav"))
    assert check.status == "ok"
    soundfile.write(tmp_path / "zero.wav", samples[:, 0], rate_hz)
    assert signal(source(tmp_path / "zero.wav")).status == "fail"


def test_level_prints_a_line_a_second_and_the_silent_channel(cosyd, recording: Path) -> None:
    settings = [f"--set=sources.mic.{text}" for text in ("type=file", f"path={recording}", "realtime=false")]
    done = cosyd("level", *settings)
    assert done.code == 0
    line = (
        r"\s+1\.\d s  0: -120\.0 \(-120\.0\)  1: -23\.0 \(-20\.0\)"
        r"  2: -23\.0 \(-20\.0\)  3: -23\.0 \(-20\.0\) dBFS\n"
    )
    assert re.fullmatch(line, done.out)
    assert done.err == "cosyd: channel 0 silent\n"


def test_level_of_something_that_is_not_there_is_3(cosyd) -> None:
    done = cosyd("level", "--set", "sources.mic.type=file", "--set", "sources.mic.path=/absent.wav")
    assert (done.code, done.out) == (3, "")
    assert done.err.count("\n") == 1


# --- what the configuration names ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "status", "part"),
    [
        ({"device": "USB"}, "ok", "USB Mic (hw:1,0), 2 channels, 48000 Hz"),
        ({"device": None}, "ok", "USB Mic"),
        ({"device": "Bluetooth"}, "fail", "no input device has 'Bluetooth' in its name"),
        ({"device": 9}, "fail", "no input device has index 9"),
        ({"type": "pipe", "path": "-"}, "ok", "standard input"),
        ({"type": "file", "path": "/absent.wav"}, "fail", "/absent.wav is not there"),
        ({"type": "file", "path": "/dev/null"}, "ok", "/dev/null is there"),
    ],
)
def test_sources_are_looked_for(settings: dict[str, object], status: str, part: str) -> None:
    check = source_exists(SourceConfig(**settings), {"portaudio": [MIC, ARRAY]})
    assert (check.name, check.status) == ("audio.source.mic", status)
    assert part in check.message
    assert bool(check.remedy) is (status != "ok")


@pytest.mark.parametrize(
    ("spoil", "message", "remedy"),
    [
        (lambda x: np.clip(x * [1, 1, 60, 1], -1, 1), "channel 2 clips", "turn the input down"),
        (lambda x: x + np.array([0, 0.05, 0, 0]), "channel 1 has a constant part of +4.9 %", "remove_dc"),
        (lambda x: x[:, [0, 1, 1, 3]], "channels 1 and 2 carry the same", "leave one of them out"),
    ],
)
def test_the_doctor_names_what_is_wrong_with_a_channel(
    tmp_path: Path, spoil: Callable, message: str, remedy: str
) -> None:
    sound = 0.05 * np.random.default_rng(1).standard_normal((24_000, 4))
    soundfile.write(tmp_path / "bad.wav", spoil(sound), 16_000, subtype="FLOAT")
    check = signal(source(tmp_path / "bad.wav"))
    assert check.status == "warn" and message in check.message and remedy in check.remedy
