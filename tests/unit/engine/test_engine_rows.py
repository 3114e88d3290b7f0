"""Rows between stores and batches: the host's way against indexing, and what the GPU's kernel is told."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from cosyd.engine.cuda_rows import KERNEL, LANE, PTX, packed, unit_of
from cosyd.engine.memory import Buffer, HostMemory
from cosyd.engine.rows import NOBODY, Lane, RowShape

SOURCE = PTX.with_suffix(".cu")
STREAMS, N = 6, 4
SHAPES = (((1, 3), 0), ((2, 1, 5), 1), ((2, 3, 1, 4), 2), ((1,), 0), ((4, 3), None))


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
def test_rows_go_to_a_batch_and_back(shape: tuple[int, ...], axis: int | None, dtype: type) -> None:
    kind, memory, rng = np.dtype(dtype), HostMemory(), np.random.default_rng(0)
    n = 1 if axis is None else N
    batch_shape = tuple(n if i == axis else length for i, length in enumerate(shape))
    row = RowShape.of(shape, axis, kind.itemsize)
    assert row.nbytes == kind.itemsize * int(np.prod(shape))
    stored = rng.integers(0, 100, (STREAMS, *shape)).astype(kind)
    store, batch = memory.allocate(stored.nbytes), memory.allocate(n * row.nbytes)
    memory.write(store, stored)
    memory.write(batch, np.full(batch_shape, 7, kind))
    table = memory.row_table([Lane(row, store, batch)], n)
    rows = np.array([4, NOBODY, 0, 5][:n], np.int32)
    table.gather(rows)
    parts = [np.zeros(shape, kind) if r == NOBODY else stored[r] for r in rows]
    expected = parts[0] if axis is None else np.concatenate(parts, axis)
    got = memory.read(batch, batch_shape, kind)
    np.testing.assert_array_equal(got, expected)
    memory.write(batch, got + 1)
    table.scatter(rows)
    live = rows[rows != NOBODY]
    stored[live] += 1
    np.testing.assert_array_equal(memory.read(store, stored.shape, kind), stored)


@pytest.mark.parametrize(
    ("address", "inner", "unit"), [(0, 32, 16), (0, 24, 8), (8, 32, 8), (0, 12, 4), (2, 16, 2), (0, 3, 1)]
)
def test_the_kernel_moves_as_much_at_a_time_as_alignment_allows(address: int, inner: int, unit: int) -> None:
    lane = Lane(RowShape(2, inner), Buffer(1 << 20, 1 << 10), Buffer((1 << 20) + address, 1 << 10))
    assert unit_of(lane) == unit
    (told,) = packed([lane]).tolist()
    assert told == (1 << 20, (1 << 20) + address, 2, inner, unit)


def test_the_compiled_kernel_is_the_source_s() -> None:
    """Whoever changes rows.cu compiles it anew; the head of the PTX says how."""
    text = PTX.read_text()
    assert hashlib.sha256(SOURCE.read_bytes()).hexdigest() in text.splitlines()[0]
    assert f".entry {KERNEL}" in text
    assert LANE.itemsize == 40  # struct Lane
