"""A scripted audio system: the protocol of cosyd.capture.device without hardware.

Each opening of a device plays the next ``Script``: so many blocks, and then the fault to be tested.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from cosyd.capture.device import DeviceInfo
from cosyd.errors import AudioError, DeviceBusy
from cosyd.ring import RingWriter
from cosyd.spec import AudioSpec, SampleFormat

MIC = DeviceInfo(2, "Array: USB Audio (hw:2,0)", "ALSA", 4, 48_000, is_default=True)
HDMI = DeviceInfo(0, "HDMI: capture (hw:0,3)", "ALSA", 2, 48_000)

Signal = Callable[[int, int, AudioSpec], np.ndarray]  # (first frame, frames, spec) -> [frames, channels]


def counter(first: int, frames: int, spec: AudioSpec) -> np.ndarray:
    """Frame number and channel in every sample, so that a test sees what was lost or swapped."""
    number = (first + np.arange(frames))[:, None] % 3000
    return (number * 10 + np.arange(spec.channels)).astype(_dtype(spec))


def _dtype(spec: AudioSpec) -> str:
    return {SampleFormat.S16: "<i2", SampleFormat.S32: "<i4", SampleFormat.F32: "<f4"}[spec.format]


@dataclass(frozen=True)
class Script:
    """What one opening does: ``blocks`` blocks (None: on and on), then ``then``."""

    blocks: int | None = None
    then: str = "silent"  # silent: callbacks stop without an error; ends: the stream is no longer active
    period_s: float = 0.002  # pause between blocks; faster than real time keeps the tests short
    first_s: float = 0.0  # pause before the first block
    overrun_every: int = 0  # the device says so at every so many blocks
    close_hangs: bool = False


@dataclass
class FakeSystem:
    """``present`` changes as the test plugs and unplugs; ``accepts`` says which formats the device takes."""

    scripts: list[Script] = field(default_factory=lambda: [Script()])
    present: list[DeviceInfo] = field(default_factory=lambda: [HDMI, MIC])
    accepts: Callable[[AudioSpec], bool] = lambda spec: spec.channels <= 4
    busy: int = 0  # so many openings fail with DeviceBusy
    signal: Signal = counter
    opened: list[tuple[DeviceInfo, AudioSpec]] = field(default_factory=list)
    streams: list[FakeStream] = field(default_factory=list)
    refreshed: int = 0
    closed: bool = False
    refresh_hangs: bool = False
    abandoned: bool = False
    release: threading.Event = field(default_factory=threading.Event)  # lets hanging calls go on

    def refresh(self) -> None:
        assert all(not stream.active for stream in self.streams), "refreshed with a stream open"
        self.refreshed += 1
        if self.refresh_hangs:
            self.release.wait()

    def devices(self) -> list[DeviceInfo]:
        return list(self.present)

    def supports(self, device: DeviceInfo, spec: AudioSpec) -> bool:
        return self.accepts(spec)

    def open(self, device: DeviceInfo, spec: AudioSpec, block_frames: int, ring: RingWriter) -> FakeStream:
        if self.busy > 0:
            self.busy -= 1
            raise DeviceBusy(f"{device.name!r}: another program holds it")
        script = self.scripts[min(len(self.opened), len(self.scripts) - 1)]
        self.opened.append((device, spec))
        stream = FakeStream(self, script, spec, block_frames, ring)
        self.streams.append(stream)
        return stream

    def close(self) -> None:
        self.closed = True

    def abandon(self) -> None:
        self.abandoned = True


class FakeStream:
    """One opening: a thread in the part of the library's audio thread."""

    def __init__(
        self, system: FakeSystem, script: Script, spec: AudioSpec, block_frames: int, ring: RingWriter
    ) -> None:
        self._system = system
        self._script = script
        self._spec = spec
        self._block = block_frames
        self._ring = ring
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-device", daemon=True)
        self._over = False
        self.first_ns = 0  # when the first block was written
        self.last_ns = 0  # when the newest frame was written
        self.written = 0

    def start(self) -> None:
        self._thread.start()

    @property
    def active(self) -> bool:
        return self._thread.is_alive() and not self._over

    def close(self) -> None:
        if self._script.close_hangs:
            self._system.release.wait()
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        self._closing.wait(self._script.first_s)
        for number in self._numbers():
            if self._closing.wait(self._script.period_s):
                return
            data = self._system.signal(self.written, self._block, self._spec)
            if self._script.overrun_every and number % self._script.overrun_every == 0:
                self._ring.count_overrun(0)
            self.last_ns = time.monotonic_ns()
            self.first_ns = self.first_ns or self.last_ns
            self._ring.write(np.ascontiguousarray(data), self.last_ns)
            self.written += self._block
        if self._script.then == "silent":
            self._closing.wait()
        self._over = True

    def _numbers(self) -> Iterator[int]:
        number = 0
        while self._script.blocks is None or number < self._script.blocks:
            yield number
            number += 1


def refuse_all(spec: AudioSpec) -> bool:
    return False


def gone(spec: AudioSpec) -> bool:
    raise AudioError("the device does not answer")
