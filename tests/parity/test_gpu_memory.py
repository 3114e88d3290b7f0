"""Stream-ordered allocation and the reserve on a real device."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.errors import GpuError
from cosyd.gpu.driver import Gpu
from cosyd.gpu.driver_memory import DriverMemory
from cosyd.gpu.memory import DeviceMemory

MB = 1 << 20


def test_memory_comes_and_goes_and_is_counted(gpu: Gpu) -> None:
    before = gpu.memory.used
    array = gpu.array((MB,), np.uint8)
    array.set(np.arange(MB, dtype=np.uint8))
    np.testing.assert_array_equal(array.get(), np.arange(MB, dtype=np.uint8))
    usage = gpu.memory.usage()
    assert usage.used == before + MB
    assert usage.reserved >= usage.used
    assert 0 < usage.device_used < usage.device_total
    array.free()
    assert gpu.memory.used == before


def test_when_the_device_is_full_the_reserve_serves_and_then_the_error_says_so(gpu: Gpu) -> None:
    raw = DriverMemory(gpu.graphs, 0)
    assert raw.ordered
    memory = DeviceMemory(raw, gpu.name)
    assert memory.reserve(16 * MB)
    held = []
    for size in (1 << 36, 1 << 32, 1 << 28, 1 << 24, 1 << 21):  # whatever is left, in ever smaller pieces
        while (piece := _taken(raw, size)) is not None:
            held.append(piece)
    try:
        served = memory.allocate(8 * MB)
        assert served.reserved
        assert memory.usage().fallbacks == 1
        gpu.cuda.memset_d8(served.address, 7, served.nbytes)
        back = np.empty(served.nbytes, np.uint8)
        gpu.cuda.memcpy_dtoh(back, served.address)
        assert (back == 7).all()
        with pytest.raises(GpuError, match="the reserve is full"):
            memory.allocate(12 * MB)
        memory.free(served)
        assert memory.allocate(12 * MB).reserved
    finally:
        for piece in held:
            raw.free(piece)
        gpu.cuda.Context.synchronize()
    assert not memory.allocate(12 * MB).reserved, "the device has room again"


def _taken(raw: DriverMemory, size: int) -> int | None:
    status, address = raw.allocate(size)
    assert status in (0, 2)
    return None if status else address
