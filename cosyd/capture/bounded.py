"""Calls into a driver that may never return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from cosyd.errors import AudioError

T = TypeVar("T")

LONGEST_S = 10.0  # for a deadline that is not set
LOOK_S = 0.05  # pause between looks at what is going on; the loss of a device is seen so much late


class DriverHangs(AudioError):
    """A call into the audio driver did not come back. Only a new process helps: this one must end.

    The hung stream's callback may come alive at any time, so the ring must not be written by another.
    """


class _Call(Generic[T]):
    """One call and what became of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: list[T] = []
        self._error: AudioError | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._result.append(self._work())
        except AudioError as error:
            self._error = error
        finally:
            self.done.set()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        if not self._result:  # any other error is a bug of ours; threading has printed where
            raise RuntimeError("a call into the audio driver failed, see the traceback before this")
        return self._result[0]


def call_bounded(
    work: Callable[[], T], what: str, deadline: Callable[[], float], waiting: Callable[[], None]
) -> T:
    """``work()`` in a thread of its own; its ``AudioError`` is passed on.

    Meanwhile ``waiting`` is called every LOOK_S. Raises DriverHangs when the monotonic clock passes
    ``deadline()``, which may move. The thread of a hung call is a daemon: it does not keep the process
    from ending.
    """
    call = _Call(work)
    threading.Thread(target=call.run, name=f"driver: {what}", daemon=True).start()
    try:
        while not call.done.wait(LOOK_S):
            waiting()
            if time.monotonic() > deadline():
                raise DriverHangs(
                    f"the audio driver has not come back from {what}; capture must be restarted"
                )
    finally:  # if ``waiting`` fails: drivers take one call at a time, and more will follow to close it
        call.done.wait(max(0.0, min(deadline() - time.monotonic(), LONGEST_S)))
    return call.result()
