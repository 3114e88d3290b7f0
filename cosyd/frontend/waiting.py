"""Blocks of streams that wait for a step, in a ring a slot."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.contract import PENDING_BLOCKS
from cosyd.frontend.stage import Samples, Slots
from cosyd.spec import FRAME

Clocks = NDArray[np.int64]


class WaitingBlocks:
    """At most PENDING_BLOCKS of each of ``slots`` streams, with the clock of each block's first sample."""

    def __init__(self, slots: int) -> None:
        self._blocks = np.zeros((slots, PENDING_BLOCKS, FRAME.block), np.float32)
        self._wide: dict[int, Samples] = {}  # of streams of several rows: [blocks, rows, block], instead
        self._clocks = np.zeros((slots, PENDING_BLOCKS), np.int64)
        self._taken = np.zeros(slots, np.int64)
        self._added = np.zeros(slots, np.int64)

    def widen(self, slot: int, rows: int) -> None:
        """Blocks of this slot have so many rows: a microphone array's channels."""
        self._wide[slot] = np.zeros((PENDING_BLOCKS, rows, FRAME.block), np.float32)

    def close(self, slot: int) -> None:
        """Nothing waits, and blocks have one row again."""
        self._wide.pop(slot, None)
        self.clear(slot)

    def clear(self, slot: int) -> None:
        """Nothing waits."""
        self._taken[slot] = self._added[slot] = 0

    @property
    def slots(self) -> Slots:
        """Those with a block that waits."""
        return np.flatnonzero(self._added > self._taken)

    def count(self, slots: Slots) -> Clocks:
        """How many wait of each."""
        return self._added[slots] - self._taken[slots]

    def waiting(self, slot: int) -> int:
        """How many wait of this one."""
        return int(self._added[slot] - self._taken[slot])

    def add(self, slot: int, blocks: Samples, clocks: Clocks) -> None:
        """Blocks [n, block], or [n, rows, block] of a wide slot; no more than there is room for."""
        place = (self._added[slot] + np.arange(len(blocks))) % PENDING_BLOCKS
        self._wide.get(slot, self._blocks[slot])[place] = blocks
        self._clocks[slot, place] = clocks
        self._added[slot] += len(blocks)

    def take(self, slots: Slots, count: int) -> tuple[Samples, Clocks, Mapping[int, Samples]]:
        """The oldest ``count`` blocks of each: [n, count, block], clocks [n, count], and of wide slots
        [count, rows, block], whose place among the first is empty."""
        place = (self._taken[slots, None] + np.arange(count)) % PENDING_BLOCKS
        self._taken[slots] += count
        wide = {
            int(slot): self._wide[int(slot)][place[row]]
            for row, slot in enumerate(slots if self._wide else ())
            if int(slot) in self._wide
        }
        return self._blocks[slots[:, None], place], self._clocks[slots[:, None], place], wide
