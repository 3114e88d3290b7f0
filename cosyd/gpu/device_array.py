"""A piece of device memory with a shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    from cosyd.gpu.driver import Gpu

Array = NDArray[Any]


class DeviceArray:
    """A piece of device memory with a shape. ``address`` is stable until ``free``."""

    def __init__(self, gpu: Gpu, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._gpu = gpu
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.nbytes = max(1, int(np.prod(shape, dtype=np.int64))) * self.dtype.itemsize
        self._memory = gpu.memory.allocate(self.nbytes)
        self.address = self._memory.address

    def set(self, values: Array) -> None:
        """Blocking copy of all values from the host; for setting up and tests."""
        data = np.ascontiguousarray(values, self.dtype)
        if data.shape != self.shape:
            raise ValueError(f"{data.shape} into device array {self.shape}")
        self._gpu.cuda.memcpy_htod(self.address, data)
        self._settle()

    def get(self) -> Array:
        """Blocking copy to the host; for tests."""
        values = np.empty(self.shape, self.dtype)
        self._gpu.cuda.memcpy_dtoh(values, self.address)
        return values

    def clear(self) -> None:
        self._gpu.cuda.memset_d8(self.address, 0, self.nbytes)
        self._settle()

    def _settle(self) -> None:
        """Both go to the default stream, for which streams that compute do not wait."""
        self._gpu.cuda.Context.synchronize()

    def free(self) -> None:
        """Once; what still runs on the device must not use it."""
        self._gpu.memory.free(self._memory)
