"""Cached states of many streams, each in a slot, in the memory that the engine works on.

A store has a row for each stream and state. A step binds the buffers of a batch, of which each state has two
that change places; rows are gathered into them and scattered back by one call (``engine.rows``), on a GPU by
one kernel, and never come to the host. While the same streams come again in the same order, which is the rule
when streams are live, nothing is moved, copied or allocated at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.batch import Batch, Lengths
from cosyd.asr.streaming.spec import EncoderSpec
from cosyd.engine.by_batch import engine_for
from cosyd.engine.protocol import Engine
from cosyd.engine.rows import RowShape

Array = NDArray[Any]

# Streams for which all batches together have room: one of each size of a GPU beside each other, and on the
# host the sizes 1 to 7 or, of many streams, a few times what can be in use at a time.
LEAST_SEATS = 32
SEATS = 3  # for each slot


def batch_sizes(most: int) -> tuple[int, ...]:
    """1, 2, 4, 8 … and ``most``: together less than three times ``most``."""
    return (*(1 << i for i in range(most.bit_length()) if 1 << i < most), most)


class SlotStates:
    """``capacity`` streams at most; borrows the engine, owns its executions: whoever opens closes.

    On a GPU batches are filled up to a few sizes, so that whatever streams come together the network meets
    shapes that it knows; rows that nobody has cost next to nothing there. A processor computes what there is.
    """

    def __init__(self, engine: Engine, spec: EncoderSpec, capacity: int) -> None:
        self._engine, self._spec = engine, spec
        self._on_host = engine.memory.device == "cpu"
        self._stream = engine.memory.stream
        self._most = capacity if spec.batchable else 1
        self._shapes = [RowShape.of(s.shape, s.axis, s.dtype.itemsize) for s in spec.states]
        self._stores = [engine.memory.allocate(capacity * shape.nbytes) for shape in self._shapes]
        self._lengths: Lengths | None = None
        self._batches: list[Batch] = []  # the one used last is the last
        self._of: dict[int, Batch] = {}  # the batch that a slot's states are in, where that is not the store
        self._fresh = set(range(capacity))  # slots whose states are zeros, whatever the store says
        self._seats = max(LEAST_SEATS, SEATS * capacity)

    def reset(self, slot: int) -> None:
        """All zero, as at the beginning of a stream."""
        self._settle(self._of.get(slot))
        self._fresh.add(slot)

    def step(self, slots: Sequence[int], x: NDArray[np.float32], steps: NDArray[np.int64]) -> Array:
        """One step of these streams, which have done ``steps`` int64 [n] before; x [n, …] is in their order.

        Returns the output's n rows. Raises InferenceError; the states are then what they were before.
        """
        members = tuple(slots)
        batch = self._of.get(members[0])
        if batch is None or batch.members != members:
            batch = self._seat(members)
        elif batch is not self._batches[-1]:
            self._batches.remove(batch)
            self._batches.append(batch)
        return batch.run(x, steps)

    def warm_up(self) -> None:
        """Make what the first steps would otherwise have to make: on a GPU the buffers of all sizes."""
        for size in (1,) if self._on_host else batch_sizes(self._most):
            self._free_batch(size)

    def close(self) -> None:
        """Idempotent."""
        while self._batches:
            self._batches.pop().close()
        self._of.clear()

    def _seat(self, members: tuple[int, ...]) -> Batch:
        """A batch with these streams in it; whoever was there before goes back to the store."""
        for slot in members:
            self._settle(self._of.get(slot))
        batch = self._free_batch(len(members))
        batch.gather(members, self._fresh)
        self._fresh.difference_update(members)
        self._of.update(dict.fromkeys(members, batch))
        return batch

    def _settle(self, batch: Batch | None) -> None:
        if batch is not None and batch.members:
            for slot in batch.members:
                del self._of[slot]
            batch.scatter()

    def _free_batch(self, n: int) -> Batch:
        """Empty, with room for n streams: one that is there, else a new one, else the longest unused."""
        size = n if self._on_host else next(size for size in batch_sizes(self._most) if size >= n)
        same = [batch for batch in self._batches if batch.size == size]
        batch = next((batch for batch in same if not batch.members), None)
        if batch is None:
            full = self._taken + size > self._seats
            batch = same[0] if same and (full or not self._on_host) else self._new_batch(size)
            self._settle(batch)
        if batch in self._batches:
            self._batches.remove(batch)
        self._batches.append(batch)
        return batch

    @property
    def _taken(self) -> int:
        return sum(batch.size for batch in self._batches)

    def _new_batch(self, size: int) -> Batch:
        while self._batches and self._taken + size > self._seats:
            self._settle(self._batches[0])
            self._batches.pop(0).close()
        if self._lengths is None:
            self._lengths = Lengths.of(self._engine, self._spec, several=self._most > 1)
        engine = engine_for(self._engine, size)
        return Batch(engine, self._spec, size, self._lengths, self._shapes, self._stores)
