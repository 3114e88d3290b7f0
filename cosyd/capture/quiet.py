"""Silence for libraries that chat on standard error: ALSA and JACK name every device that is not there.

They write to the descriptor, not through Python, at every look for devices: some 100 lines each time.
"""

from __future__ import annotations

import os
from types import TracebackType

STDERR = 2


class QuietStderr:
    """While entered, this process's standard error leads nowhere. ``restore`` helps if the inside hangs."""

    def __init__(self) -> None:
        self._kept: int | None = None

    def __enter__(self) -> None:
        kept = os.dup(STDERR)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, STDERR)
        os.close(null)
        self._kept = kept

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    def restore(self) -> None:
        """From any thread; idempotent."""
        kept, self._kept = self._kept, None
        if kept is not None:
            os.dup2(kept, STDERR)
            os.close(kept)
