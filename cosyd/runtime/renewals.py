"""When the recogniser's process may be replaced by another because only that gets the GPU back.

What fails again soon after must not keep recognition from working, which it does on the processor meanwhile:
each replacement pauses it for some seconds. The first is at once, the next after growing pauses.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE_S, LONGEST_PAUSE_S = 30.0, 3_600.0
SOUND_S = 3_600.0  # a GPU that worked so long begins with a clean record


@dataclass
class Renewals:
    """Times are CLOCK_MONOTONIC seconds, given by the caller."""

    in_a_row: int = 0
    last_at: float = float("-inf")

    def due_in(self, now: float) -> float:
        """Seconds until it may be replaced."""
        if now - self.last_at >= SOUND_S:
            self.in_a_row = 0
        if self.in_a_row == 0:
            return 0.0
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self.in_a_row - 1))
        return max(0.0, self.last_at + pause - now)

    def done(self, now: float) -> None:
        """It was replaced."""
        self.in_a_row += 1
        self.last_at = now
