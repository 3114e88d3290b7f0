"""Rows of many tensors moved by one kernel (kernels/rows.cu), for states of streams in a GPU's memory.

Its PTX ships with the package and is compiled by the driver: no compiler, no PyCUDA.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cosyd.engine.rows import Lane, Rows

if TYPE_CHECKING:
    from cosyd.engine.cuda import CudaMemory

PTX = Path(__file__).parents[1] / "gpu" / "cuda" / "rows.ptx"  # in a source tree a link to kernels/
KERNEL = "move_rows"
THREADS = 128
UNITS = (16, 8, 4, 2)
# struct Lane of rows.cu
LANE = np.dtype([(name, "i8") for name in ("store", "batch", "outer", "inner", "unit")])


def unit_of(lane: Lane) -> int:
    """The most bytes that the kernel can move at a time."""
    alignment = lane.store.address | lane.batch.address | lane.shape.inner
    return next((unit for unit in UNITS if alignment % unit == 0), 1)


def packed(lanes: Sequence[Lane]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """The lanes as the kernel reads them."""
    rows = [
        (lane.store.address, lane.batch.address, lane.shape.outer, lane.shape.inner, unit_of(lane))
        for lane in lanes
    ]
    return np.array(rows, LANE)


class CudaRowTable:
    """A RowTable. The lanes' addresses lie on the device; a call sends the row numbers and launches."""

    def __init__(self, memory: CudaMemory, lanes: Sequence[Lane], n: int) -> None:
        self._memory, self._kept, self._n = memory, tuple(lanes), n
        self._function = memory.kernel(PTX, KERNEL)
        table = packed(lanes)
        self._lanes = memory.allocate(table.nbytes)
        self._rows = memory.allocate(4 * n)
        memory.write(self._lanes, table, memory.stream)
        memory.synchronize(memory.stream)

    def gather(self, rows: Rows, stream: int = 0) -> None:
        self._move(rows, 0, stream)

    def scatter(self, rows: Rows, stream: int = 0) -> None:
        self._move(rows, 1, stream)

    def _move(self, rows: Rows, scatter: int, stream: int) -> None:
        if len(rows) != self._n:
            raise ValueError(f"{len(rows)} rows for a batch of {self._n}")
        self._memory.write(self._rows, np.ascontiguousarray(rows, np.int32), stream)
        values = (self._lanes.address, self._rows.address, scatter)
        types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        self._memory.launch(self._function, (len(self._kept), self._n), THREADS, (values, types), stream)
