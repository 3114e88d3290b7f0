"""Bounded calls, priority, silence, and the translation of PortAudio's errors."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from cosyd.capture.bounded import DriverHangs, call_bounded
from cosyd.capture.priority import raise_priority
from cosyd.capture.quiet import QuietStderr
from cosyd.errors import DeviceBusy, DeviceLost, DeviceNotFound, UnsupportedFormat


def in_5_s() -> float:
    return time.monotonic() + 5


def test_a_bounded_call_gives_its_result_and_its_error():
    assert call_bounded(lambda: 42, "counting", in_5_s, lambda: None) == 42

    def busy():
        raise DeviceBusy("taken")

    with pytest.raises(DeviceBusy, match="taken"):
        call_bounded(busy, "opening", in_5_s, lambda: None)


def test_a_hanging_call_is_given_up_and_the_wait_is_used():
    release, ticks = threading.Event(), []
    until = time.monotonic() + 0.2
    try:
        with pytest.raises(DriverHangs, match="not come back from closing 'mic'"):
            call_bounded(release.wait, "closing 'mic'", lambda: until, lambda: ticks.append(1))
        assert len(ticks) >= 2
    finally:
        release.set()


def test_a_failing_wait_lets_the_call_finish_first():
    """Drivers take one call at a time: whoever handles the failure may call again."""
    finished = threading.Event()

    def slow():
        time.sleep(0.3)
        finished.set()

    def fail():
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        call_bounded(slow, "starting", in_5_s, fail)
    assert finished.is_set()


def test_priority_is_refused_in_words(monkeypatch):
    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    calls = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda *arguments: calls.append(arguments))
    assert raise_priority().startswith("real-time")
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "setpriority", lambda *arguments: calls.append(arguments))
    assert "nice -11; real-time scheduling was refused (Operation not permitted)" in raise_priority()
    monkeypatch.setattr(os, "setpriority", refuse)
    assert raise_priority().startswith("ordinary")
    assert len(calls) == 2


def test_quiet_is_quiet_and_can_be_ended_from_outside(capfd):
    quiet = QuietStderr()
    before = set(Path("/proc/self/fd").iterdir())
    with quiet:
        os.write(2, b"chatter\n")
        quiet.restore()
        os.write(2, b"news\n")
    os.write(2, b"more\n")
    assert capfd.readouterr().err == "news\nmore\n"
    assert set(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-9997, UnsupportedFormat),  # paInvalidSampleRate, which users meet most
        (-9994, UnsupportedFormat),  # paSampleFormatNotSupported
        (-9998, UnsupportedFormat),  # paInvalidChannelCount
        (-9985, DeviceBusy),  # paDeviceUnavailable
        (-9996, DeviceNotFound),  # paInvalidDevice
        (-9986, DeviceLost),  # paInternalError
    ],
)
def test_portaudio_errors_become_ours(code, kind):
    pytest.importorskip("sounddevice")
    from cosyd.capture.portaudio import PortAudio

    error = PortAudio().translate(code, "opening 'mic'")
    assert type(error) is kind
    assert str(error).startswith("opening 'mic': ") and "\n" not in str(error)


def test_devices_can_be_listed_again_and_again():
    pytest.importorskip("sounddevice")
    from cosyd.capture import list_devices

    assert list_devices() == list_devices()
