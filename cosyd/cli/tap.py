"""Listens to one source without the daemon: capture in a thread, its own ring, levels out."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType

from cosyd.capture import Capture
from cosyd.config.paths import SHARED_MEMORY
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, CosydError, RingError
from cosyd.ring import Block, RingReader, WriterState, remove_ring
from cosyd.runtime.level import LevelMeter
from cosyd.types import CaptureEvent, DeviceLost, DeviceOpened, Level, SourceEnded

EVENTS = 64  # device events between two looks at them; there are a few an hour
OPEN_S = 10.0  # a USB device behind a sound server takes a second
TURN_S = 0.1
STOP_S = 5.0


class Tap:
    """Context manager. ``period_ms``: length of what one level describes."""

    def __init__(self, source: SourceConfig, period_ms: int) -> None:
        self._source = source
        self._period_ms = period_ms
        self._path = SHARED_MEMORY / f"cosyd-tap-{os.getpid()}-{source.name}.ring"
        self._stop = threading.Event()
        self._opened = threading.Event()
        self._events: deque[CaptureEvent] = deque(maxlen=EVENTS)
        self._failure: CosydError | None = None
        self._thread = threading.Thread(target=self._capture, name="tap", daemon=True)
        self.opened: DeviceOpened | None = None

    def __enter__(self) -> Tap:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(STOP_S)  # a driver that hangs keeps the thread, which ends with the program
        remove_ring(self._path)  # a recording that has ended leaves its own

    def levels(
        self, limit_s: float = math.inf, seen: Callable[[Block], None] | None = None
    ) -> Iterator[Level | None]:
        """A level each period, None in between, until the source has ended or was open for ``limit_s``.

        ``seen`` gets every block, which is valid until it returns. Raises AudioError.
        """
        with self.reader() as reader:
            until = time.monotonic() + limit_s
            meter = LevelMeter(self._period_ms)
            frames = max(1, reader.spec.frames(self._period_ms / 1000))
            while time.monotonic() < until:
                writer = reader.writer
                reader.wait(TURN_S)
                while (block := reader.read(frames)) is not None:
                    if seen is not None:
                        seen(block)
                    yield meter.accept(block.frames, block.index, reader.spec, 0.0)
                self._check()
                if writer is not WriterState.LIVE:
                    return
                yield None

    def reader(self) -> RingReader:
        """A reader of its ring, from now on; the caller closes it. Waits until the source is open.

        Raises AudioError.
        """
        self._wait_until_open()
        return RingReader.attach(self._path)

    def _wait_until_open(self) -> None:
        if not self._opened.wait(OPEN_S):
            lost = [event.reason for event in self._events if isinstance(event, DeviceLost)]
            raise AudioError(
                f"source {self._source.name}: {lost[-1] if lost else 'the device does not open'}"
            )
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _capture(self) -> None:
        try:
            Capture(self._source, self._path, fresh=True).run(self._stop, self._report)
        except (AudioError, RingError) as error:
            self._failure = error
        finally:
            self._opened.set()

    def _report(self, event: CaptureEvent) -> None:
        self._events.append(event)
        if isinstance(event, DeviceOpened):
            self.opened = event
        if isinstance(event, DeviceOpened | SourceEnded):
            self._opened.set()
