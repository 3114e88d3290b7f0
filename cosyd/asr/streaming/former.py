"""When a batch is run: as soon as it is full, or when the first stream in it has waited for the deadline."""

from __future__ import annotations

from collections.abc import Collection

DEADLINE_S = 0.005  # a stream waits at most so long for others to share a step with


class BatchFormer:
    """Which streams are ready for a step since when. No clock and no thread; times come from the caller."""

    def __init__(self, most: int, deadline_s: float = DEADLINE_S) -> None:
        """``most``: streams of a full batch."""
        self._most = most
        self._deadline_s = deadline_s
        self._since: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def update(self, ready: Collection[int], now: float) -> None:
        """These streams are ready, no others are; each counts from when it was first."""
        self._since = {slot: self._since.get(slot, now) for slot in ready}

    def drop(self, slot: int) -> None:
        """It is gone."""
        self._since.pop(slot, None)

    def delay(self, now: float, live: int) -> float | None:
        """Seconds until a batch is due: 0.0 at once, None while nothing is ready.

        ``live``: streams that could still join; with all of them ready there is nobody to wait for.
        """
        if not self._since:
            return None
        if len(self._since) >= min(self._most, live):
            return 0.0
        return max(0.0, min(self._since.values()) + self._deadline_s - now)

    def take(self, urgent: Collection[int] = ()) -> list[int]:
        """The batch: urgent streams first, then those that have waited longest; in the order of their slots,
        so that the same streams make the same batch."""
        order = sorted(self._since, key=lambda slot: (slot not in urgent, self._since[slot]))
        batch = sorted(order[: self._most])
        for slot in batch:
            del self._since[slot]
        return batch
