"""Rows of many tensors, moved between a store, where each stream has its own, and the buffers of a batch.

A stream's part of a tensor [outer, n, inner] is ``outer`` pieces of ``inner`` bytes. In the store they follow
each other, stream after stream; in a batch of n they lie n * inner bytes apart. All tensors of all streams of
a batch are moved by one call, on a GPU by one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.memory import Buffer, view_of

Rows = NDArray[np.int32]
NOBODY = -1  # a row of the batch without a stream: gathered as zeros, scattered nowhere


@dataclass(frozen=True)
class RowShape:
    """How the part of one stream lies in a tensor."""

    outer: int
    inner: int

    @classmethod
    def of(cls, shape: Sequence[int], axis: int | None, itemsize: int) -> RowShape:
        """``shape``: the tensor of one stream, whose axis ``axis`` counts streams (None: it has no such)."""
        split = axis or 0
        return cls(math.prod(shape[:split]), math.prod(shape[split:]) * itemsize)

    @property
    def nbytes(self) -> int:
        return self.outer * self.inner


@dataclass(frozen=True)
class Lane:
    """One tensor: its store, with a row a stream, and its buffer in the batch."""

    shape: RowShape
    store: Buffer
    batch: Buffer


class RowTable(Protocol):
    """The lanes of a batch of n. ``rows`` int32 [n]: row i of the batch is that row of the store."""

    def gather(self, rows: Rows, stream: int = 0) -> None:
        """Store to batch; zeros for NOBODY."""
        ...

    def scatter(self, rows: Rows, stream: int = 0) -> None:
        """Batch to store."""
        ...


class HostRowTable:
    """In memory that the processor reaches: the reference of the kernel, too."""

    def __init__(self, lanes: Sequence[Lane], n: int) -> None:
        self._stores = [_store(lane) for lane in lanes]
        self._batches = [_batch(lane, n) for lane in lanes]

    def gather(self, rows: Rows, stream: int = 0) -> None:
        live = np.flatnonzero(rows != NOBODY)
        for store, batch in zip(self._stores, self._batches, strict=True):
            batch[:, rows == NOBODY] = 0
            batch[:, live] = store[rows[live]].transpose(1, 0, 2)

    def scatter(self, rows: Rows, stream: int = 0) -> None:
        live = np.flatnonzero(rows != NOBODY)
        for store, batch in zip(self._stores, self._batches, strict=True):
            store[rows[live]] = batch[:, live].transpose(1, 0, 2)


def _store(lane: Lane) -> NDArray[Any]:
    """[rows, outer, inner]."""
    rows = lane.store.nbytes // lane.shape.nbytes
    return view_of(lane.store, (rows, lane.shape.outer, lane.shape.inner), np.uint8)


def _batch(lane: Lane, n: int) -> NDArray[Any]:
    """[outer, n, inner]."""
    return view_of(lane.batch, (lane.shape.outer, n, lane.shape.inner), np.uint8)
