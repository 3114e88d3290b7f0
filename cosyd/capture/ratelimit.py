"""Saying something often at most once in a while."""

from __future__ import annotations

import time
from collections.abc import Callable

LOG_EVERY_S = 10.0  # a device that overruns at every block would write 100 lines a second


class RateLimiter:
    """Lets one event through per ``interval_s`` and adds up the amounts of those it holds back."""

    def __init__(self, interval_s: float = LOG_EVERY_S, now: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._now = now
        self._next: float | None = None
        self._held = 0

    def add(self, amount: int = 1) -> int:
        """Note ``amount`` (0: just look). Returns the sum to speak of now, or 0 to keep quiet."""
        self._held += amount
        now = self._now()
        if self._held == 0 or (self._next is not None and now < self._next):
            return 0
        self._next = now + self._interval_s
        due, self._held = self._held, 0
        return due
