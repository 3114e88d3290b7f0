"""New memory of a GPU is zero before anybody writes to it, also while the default stream is behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosyd.engine.cuda import CudaMemory
from cosyd.engine.memory import Buffer

BUSY_BYTES = 4 << 30  # to fill takes a millisecond or so
BUSY_TIMES = 50
VALUES = np.arange(1, 65, dtype=np.uint8)


@pytest.fixture(scope="module")
def large(memory: CudaMemory) -> Buffer:
    return memory.allocate(BUSY_BYTES)


def hold_up_the_default_stream(memory: CudaMemory, large: Buffer) -> None:
    for _ in range(BUSY_TIMES):
        memory._call("cuMemsetD8", large.address, 1, BUSY_BYTES)


def test_what_is_written_to_new_memory_stays(memory: CudaMemory, large: Buffer) -> None:
    hold_up_the_default_stream(memory, large)
    fresh = memory.allocate(VALUES.nbytes)
    memory.write(fresh, VALUES, memory.stream)
    memory.synchronize(memory.stream)
    memory.synchronize()
    assert np.array_equal(memory.read(fresh, VALUES.shape, np.uint8, memory.stream), VALUES)


def test_arrays_of_the_front_end_are_theirs_when_they_are_there(
    memory: CudaMemory, large: Buffer, tmp_path: Path
) -> None:
    pytest.importorskip("pycuda", reason="PyCUDA is not installed")
    from cosyd.gpu.driver import Gpu

    with Gpu(tmp_path) as gpu:
        stream = gpu.stream()
        hold_up_the_default_stream(memory, large)
        array = gpu.array(VALUES.shape, np.uint8)
        gpu.cuda.memcpy_htod_async(array.address, VALUES, stream)
        stream.synchronize()
        assert np.array_equal(array.get(), VALUES)
