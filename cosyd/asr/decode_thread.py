"""The thread of a decode queue: begun once, ended in order; its owner waits for results."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sized
from types import TracebackType
from typing import TypeVar

from cosyd.errors import InferenceError

Self = TypeVar("Self", bound="DecodeThread")


class DecodeThread(ABC):
    """``_changed`` guards all that thread and owner share; ``_results`` is what the owner has not fetched."""

    _results: Sized

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = False

    @abstractmethod
    def _run(self) -> None:
        """Decode until ``_closed``."""

    def start(self) -> None:
        """Begin to decode. Once."""
        if self._thread is not None:
            raise RuntimeError("this queue was started before")
        self._thread = threading.Thread(target=self._until_closed, name="decode", daemon=True)
        self._thread.start()

    def _until_closed(self) -> None:
        try:
            self._run()
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _check(self) -> None:
        """Raises InferenceError when the thread is gone and nobody closed it: results would be waited for in
        vain. What ended it is in the log."""
        if self._ended and not self._closed:
            raise InferenceError("the thread that decodes has ended by itself; the log says at what")

    def close(self) -> None:
        """End the thread after what is under way; what waits is dropped. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self: Self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a result; False when none came in time. Raises InferenceError when none can come."""
        with self._changed:
            self._changed.wait_for(lambda: bool(len(self._results)) or self._ended, timeout_s)
            self._check()
            return bool(len(self._results))
