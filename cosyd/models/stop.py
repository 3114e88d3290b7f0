"""Ending work from another thread when nobody wants its result any more.

::

    stop = Stop()
    with stop.heeded():              # the thread that works
        recognizer.transcribe(...)   # raises Stopped soon after another thread has called stop.set()

What can be ended asks ``current_stop``; what runs networks need not know of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopped(Exception):
    """Raised in place of a result by work that was ended on purpose. No fault, and no user ever meets it."""


class Stop:
    """Made for one piece of work, and set once, from any thread, to end it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._end: Callable[[], None] | None = None

    @property
    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        """Returns at once; the work ends at the next place where it can."""
        with self._lock:
            self._set = True
            if self._end is not None:
                self._end()

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """What this thread does in the block ends with Stopped once this is set."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    @contextmanager
    def ended_by(self, end: Callable[[], None]) -> Iterator[None]:
        """``end`` is called if this is set while the block runs; where it was before, raises Stopped."""
        with self._lock:
            if self._set:
                raise Stopped
            self._end = end
        try:
            yield
        finally:
            with self._lock:
                self._end = None


_current: ContextVar[Stop | None] = ContextVar("stop", default=None)


def current_stop() -> Stop | None:
    """What may end the work that this thread is doing; None: nothing."""
    return _current.get()
