"""The record of an engine's faults, and when it may be tried again."""

from __future__ import annotations

from collections.abc import Callable

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 8.0
HEALED_STEPS = 100  # after so many good steps a fault counts as the first again


class Faults:
    """The first fault in a row may be mended at once; then after 1, 2, 4, 8, 8 … s."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.count = 0  # since the start
        self.last = ""
        self._in_a_row = 0
        self._good = 0  # steps since the last one
        self._retry_at = 0.0

    def note(self, error: Exception) -> None:
        if self._good >= HEALED_STEPS:
            self._in_a_row = 0
        self.count += 1
        self._in_a_row += 1
        self._good = 0
        self.last = str(error)

    def went_well(self) -> None:
        self._good += 1

    @property
    def may_retry(self) -> bool:
        return self._clock() >= self._retry_at

    def postpone(self, *, failed_again: bool = False) -> None:
        """``failed_again``: mending it failed too, which is no fault of a step."""
        self._in_a_row += failed_again
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** max(0, self._in_a_row - 2))
        self._retry_at = self._clock() + pause
