"""The driver's allocator as cosyd.gpu.memory wants it, over cuda.bindings, which the Gpu hands in."""

from __future__ import annotations

from typing import Any

from cosyd.errors import GpuError

_POOLS_SUPPORTED = 115  # CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED


class DriverMemory:
    """The driver's stream-ordered allocator, on the default stream: what is set up there is ordered after it.

    A device without memory pools (some virtual GPUs) has the plain allocator instead.
    """

    def __init__(self, driver: Any, device: int) -> None:
        self._driver = driver
        handle = _first(driver.cuDeviceGet(device))
        attribute = driver.CUdevice_attribute(_POOLS_SUPPORTED)
        self.ordered = bool(_first(driver.cuDeviceGetAttribute(attribute, handle)))
        self._pool = _first(driver.cuDeviceGetDefaultMemPool(handle)) if self.ordered else None

    def allocate(self, nbytes: int) -> tuple[int, int]:
        take = self._driver.cuMemAllocAsync if self.ordered else self._driver.cuMemAlloc
        status, address = take(nbytes, 0) if self.ordered else take(nbytes)
        return int(status), 0 if int(status) else int(address)

    def free(self, address: int) -> int:
        give = self._driver.cuMemFreeAsync if self.ordered else self._driver.cuMemFree
        (status,) = give(address, 0) if self.ordered else give(address)
        return int(status)

    def pool(self) -> tuple[int, int, int]:
        if self._pool is None:
            return 0, 0, 0
        kind = self._driver.CUmemPool_attribute
        wanted = (
            kind.CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
            kind.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
            kind.CU_MEMPOOL_ATTR_USED_MEM_HIGH,
        )
        used, held, most = (int(_first(self._driver.cuMemPoolGetAttribute(self._pool, w))) for w in wanted)
        return used, held, most

    def device(self) -> tuple[int, int]:
        status, free, total = self._driver.cuMemGetInfo()
        if int(status):
            raise GpuError(f"asking the driver for its memory failed: {status}")
        return int(total) - int(free), int(total)


def _first(result: tuple[Any, ...]) -> Any:
    """The value of a driver call that must succeed."""
    status, *values = result
    if int(status):
        raise GpuError(f"the driver refused: {status}")
    return values[0]
