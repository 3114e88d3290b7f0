"""Keeping a source that could run ahead from overwriting what nobody has read yet."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cosyd.ring import RingWriter

LEAD = 4  # a source may be a quarter of the ring ahead of its slowest reader; the rest is for the past
POLL_S = 0.005  # least pause between two looks, of which each asks whether the readers live
POLL_SHARE = 0.01  # of the lead between two looks: at 20 times real time a fifth of what it lasts


class Pacer:
    """For sources that can wait: files read as fast as they are processed, and pipes."""

    def __init__(self, ring: RingWriter, stop: threading.Event, tick: Callable[[], None]) -> None:
        self._ring = ring
        self._stop = stop
        self._tick = tick
        self._poll_s = max(POLL_S, POLL_SHARE * self.max_frames / ring.spec.rate_hz)

    @property
    def max_frames(self) -> int:
        """How much may be written at once."""
        return max(1, self._ring.capacity // LEAD)

    def wait_for_room(self, frames: int) -> bool:
        """Until ``frames`` more frames leave the slowest living reader in reach. False: ``stop`` was set.

        Without a reader, waits for one to come: a reader that starts at the live edge would miss the rest.
        """
        while not self._stop.is_set():
            position = self._ring.slowest_reader()
            if position is not None and self._ring.write_index + frames - position <= self.max_frames:
                return True
            self._tick()
            self._stop.wait(POLL_S if position is None else self._poll_s)
        return False
