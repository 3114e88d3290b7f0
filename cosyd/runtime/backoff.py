"""How long to wait before a worker that died is started again."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S = 1.0  # pause after the second death in a row; the first is made good at once
LONGEST_S = 30.0
HEALTHY_S = 60.0  # a worker that lived so long starts with a clean record
LOOP_DEATHS = 3  # so many in a row is a crash loop, and said to be one


@dataclass
class Backoff:
    """Counts deaths in a row. Times are CLOCK_MONOTONIC seconds, given by the caller."""

    deaths: int = 0
    started_at: float = 0.0

    def started(self, now: float) -> None:
        self.started_at = now

    def died(self, now: float) -> float:
        """Record a death; the pause in seconds before the next start."""
        if now - self.started_at >= HEALTHY_S:
            self.deaths = 0
        self.deaths += 1
        if self.deaths == 1:
            return 0.0
        return float(min(LONGEST_S, FIRST_S * 2 ** (self.deaths - 2)))

    @property
    def looping(self) -> bool:
        return self.deaths >= LOOP_DEATHS
