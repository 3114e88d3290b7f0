"""The thread of a decode queue: begun once, ended in order; its owner waits for results."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sized
from types import TracebackType
from typing import TypeVar

Self = TypeVar("Self", bound="DecodeThread")


class DecodeThread(ABC):
    """``_changed`` guards all that thread and owner share; ``_results`` is what the owner has not fetched."""

    _results: Sized

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    @abstractmethod
    def _run(self) -> None:
        """Decode until ``_closed``."""

    def start(self) -> None:
        """Begin to decode. Once."""
        if self._thread is not None:
            raise RuntimeError("this queue was started before")
        self._thread = threading.Thread(target=self._run, name="decode", daemon=True)
        self._thread.start()

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
        """Wait for a result; False when none came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(len(self._results)), timeout_s)
