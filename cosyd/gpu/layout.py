"""Where everything lies in the two buffers of a step, and how a step is divided. Pure arithmetic.

In: a header for each lane (kernels/common.cuh), then the PCM of all rows. Out: the recogniser's hops of all
rows, then their statistics, then their probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.spec import FRAME

Array = NDArray[Any]

HEADER = 16  # ints before a header's columns
COLUMNS = 7  # slot, hop, frames, phase, vad_row, address of the PCM (two)
BUCKETS = (1, 8, 64, 256, 1024, 2048)  # then doubling: a step costs at most twice what its rows need
FEW = 64  # up to here the kernels write results to host memory: a copy would cost more than it carries
CHUNK = 16_384  # rows a lane: its products fill a large chip, its copies hide behind another lane's kernels
_ALIGN = 256  # bytes, of each header and so of the PCM


def buckets(slots: int) -> tuple[int, ...]:
    """Capacities for which graphs are captured, the last of them ``slots``."""
    sizes = [size for size in BUCKETS if size < slots]
    while (size := (sizes[-1] if sizes else 1) * 2) < slots and slots > BUCKETS[-1]:
        sizes.append(size)
    return (*sizes, slots)


def lanes(capacity: int) -> list[tuple[int, int]]:
    """(first row, rows) of each lane of a bucket; all have CHUNK rows but the last may have fewer."""
    return [(first, min(CHUNK, capacity - first)) for first in range(0, capacity, CHUNK)]


@dataclass(frozen=True)
class Layout:
    """A bucket's buffers. ``stride``: bytes of a row's PCM, a multiple of 16; ``channels``: of statistics."""

    capacity: int
    stride: int
    channels: int

    @cached_property
    def lanes(self) -> list[tuple[int, int]]:
        return lanes(self.capacity)

    @cached_property
    def header_bytes(self) -> int:
        """Of the largest lane's header, rounded up."""
        return -(-4 * (HEADER + COLUMNS * self.lanes[0][1]) // _ALIGN) * _ALIGN

    @cached_property
    def headers_bytes(self) -> int:
        return self.header_bytes * len(self.lanes)

    @cached_property
    def in_bytes(self) -> int:
        return self.headers_bytes + self.capacity * self.stride

    @cached_property
    def out_floats(self) -> int:
        return self.capacity * (FRAME.hop + 4 * self.channels + 1)

    def pcm_part(self, first: int, rows: int) -> slice:
        """Bytes of the PCM of some rows."""
        start = self.headers_bytes + first * self.stride
        return slice(start, start + rows * self.stride)

    def in_parts(self, lane: int, lent: bool = False) -> list[slice]:
        """Bytes to copy before a lane starts; the first lane brings all headers along.

        ``lent``: all PCM is read where it lies.
        """
        if lent:
            return [slice(0, self.headers_bytes)] if lane == 0 else []
        first, rows = self.lanes[lane]
        part = self.pcm_part(first, rows)
        return [slice(0, part.stop)] if lane == 0 else [part]

    def out_copies(self, first: int, rows: int) -> list[slice]:
        """Floats to copy back for a lane: one piece where it is the only one."""
        return [slice(0, self.out_floats)] if rows == self.capacity else list(self.out_parts(first, rows))

    def out_parts(self, first: int, rows: int) -> tuple[slice, slice, slice]:
        """Floats of some rows' hops, statistics, probabilities."""
        start, parts = 0, []
        for size in (FRAME.hop, 4 * self.channels, 1):
            parts.append(slice(start + first * size, start + (first + rows) * size))
            start += self.capacity * size
        return parts[0], parts[1], parts[2]

    def header(self, buffer: Array, lane: int) -> Array:
        """int32 [HEADER + COLUMNS * rows]: a lane's header within the bytes of an input buffer."""
        size = 4 * (HEADER + COLUMNS * self.lanes[lane][1])
        start = lane * self.header_bytes
        header: Array = buffer[start : start + size].view(np.int32)
        return header


def write_header(
    head: Array, table: Array, slots: Array, vad_rows: Array, addresses: Array | None = None
) -> None:
    """The step header of kernels/common.cuh: int32 [HEADER + COLUMNS * capacity] from Clock.table.

    ``addresses`` int64 [n]: where each row's PCM lies, 0 in the buffer; None: all of it.
    """
    columns, n = head[HEADER:].reshape(COLUMNS, -1), len(slots)
    head[0], head[1] = n, len(vad_rows)
    for column, values in zip(columns, table, strict=False):
        np.take(values, slots, out=column[:n], mode="clip")
    columns[4, : len(vad_rows)] = vad_rows
    halves = 0 if addresses is None else addresses.view(np.int32).reshape(-1, 2).T
    columns[5:7, :n] = halves
