"""What the tests of sources share: running one in a thread, its events, and the audio that came out."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cosyd.ring import RingReader
from cosyd.types import CaptureEvent

PATIENCE_S = 20.0  # only against hanging for ever


class Run:
    """``work(stop, report)`` in a thread. Leaving the context stops it and passes on what it raised."""

    def __init__(self, work: Callable[[threading.Event, Callable[[CaptureEvent], None]], None]) -> None:
        self._work = work
        self.stop = threading.Event()
        self.events: list[CaptureEvent] = []
        self.times: list[float] = []
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._main, name="source", daemon=True)

    def _main(self) -> None:
        try:
            self._work(self.stop, self._report)
        except Exception as error:  # noqa: BLE001  # a test's thread: the test raises it
            self.error = error

    def _report(self, event: CaptureEvent) -> None:
        self.times.append(time.monotonic())
        self.events.append(event)

    def __enter__(self) -> Run:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self.stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the source does not stop"
        if self.error is not None and kind is None:
            raise self.error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def of(self, kind: type) -> list:
        return [event for event in list(self.events) if isinstance(event, kind)]

    def wait_for(self, kind: type, count: int = 1):
        """The ``count``-th event of that kind."""
        self.until(lambda: len(self.of(kind)) >= count or not self.running)
        found = self.of(kind)
        assert len(found) >= count, f"ended with {self.events[-5:]}, {self.error!r}"
        return found[count - 1]

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"waited in vain; {self.events[-5:]}"
            time.sleep(0.005)


def as_killed(path: Path) -> None:
    """Makes a ring that was closed look like one whose writer was killed: ``state`` in its header is OPEN."""
    with path.open("r+b") as file:
        file.seek(64)
        assert file.read(4) == struct.pack("<I", 2)
        file.seek(64)
        file.write(struct.pack("<I", 1))


def attach(path: Path, position: int | None = None) -> RingReader:
    """As soon as there is a ring."""
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"no ring at {path}"
        time.sleep(0.005)
    return RingReader.attach(path, position=position)


def read_frames(reader: RingReader, frames: int) -> np.ndarray:
    """The next ``frames`` frames (fewer if the writer ends), copied, gaps left out."""
    parts: list[np.ndarray] = []
    have = 0
    deadline = time.monotonic() + PATIENCE_S
    while have < frames:
        assert time.monotonic() < deadline, f"only {have} of {frames} frames came"
        block = reader.read(frames - have)
        if block is None:
            if reader.wait(0.2) and (block := reader.read(frames - have)) is None:
                break
            if block is None:
                continue
        parts.append(block.frames.copy())
        have += len(block.frames)
        assert reader.intact(block)
    return np.concatenate(parts) if parts else np.zeros((0, reader.spec.channels))
