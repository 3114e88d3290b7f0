"""The kernel that moves states of streams (``kernels/rows.cu``), bit for bit beside the processor."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.engine.cuda import CudaMemory
from cosyd.engine.memory import HostMemory, Memory
from cosyd.engine.rows import NOBODY, Lane, RowShape

STREAMS = 9
SHAPES = ((1, 1), (1, 3), (3, 2), (5, 6), (7, 4), (1, 8), (64, 192), (64, 512), (3, 40_000))


def moved(memory: Memory, shape: RowShape, n: int) -> tuple[bytes, bytes]:
    """What a batch and a store hold after rows were gathered, changed and scattered; one row is nobody's."""
    rng = np.random.default_rng(shape.inner)
    stored = rng.integers(0, 256, (STREAMS, shape.nbytes), np.uint8)
    store, batch = memory.allocate(stored.nbytes), memory.allocate(n * shape.nbytes)
    memory.write(store, stored, memory.stream)
    memory.write(batch, np.full(n * shape.nbytes, 7, np.uint8), memory.stream)
    table = memory.row_table([Lane(shape, store, batch)], n)
    rows = rng.permutation(STREAMS)[:n].astype(np.int32)
    rows[n // 2] = NOBODY
    table.gather(rows, memory.stream)
    gathered = memory.read(batch, (n * shape.nbytes,), np.uint8, memory.stream)
    memory.write(batch, gathered ^ 255, memory.stream)
    table.scatter(rows, memory.stream)
    return gathered.tobytes(), memory.read(store, stored.shape, np.uint8, memory.stream).tobytes()


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize(("outer", "inner"), SHAPES)
def test_rows_go_where_the_processor_puts_them(memory: CudaMemory, outer: int, inner: int, n: int) -> None:
    shape = RowShape(outer, inner)
    assert moved(memory, shape, n) == moved(HostMemory(), shape, n)
