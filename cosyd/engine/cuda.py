"""Device memory and streams through the CUDA driver (cuda.bindings), for engines.

Everything is in the device's primary context, which PyCUDA, ONNX Runtime and TensorRT share. It is made
current in whichever thread calls and never pushed, so threads need not hand contexts to each other.
"""

from __future__ import annotations

import ctypes
import importlib
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cosyd.engine.library import Capability
from cosyd.engine.memory import Buffer
from cosyd.errors import GpuError, InferenceError

if TYPE_CHECKING:
    from cosyd.engine.rows import Lane, RowTable

Array = NDArray[Any]

DRIVER = "libcuda.so.1"
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_SUCCESS, _NOT_READY = 0, 600


class _Allocation:
    """Gives its memory back when nobody refers to it any more."""

    def __init__(self, memory: CudaMemory, address: int) -> None:
        self._memory = memory  # the context outlives what is in it
        weakref.finalize(self, _free, memory._driver, memory._context, address)


def _free(driver: Any, context: Any, address: int) -> None:
    """From whichever thread collects garbage; a context that is gone has freed it already."""
    driver.cuCtxSetCurrent(context)
    driver.cuMemFree(address)


class CudaMemory:
    """Memory of one GPU; ``stream``: one of its own. Raises GpuError without a usable GPU."""

    device = "cuda"

    def __init__(self, index: int = 0) -> None:
        try:
            ctypes.CDLL(DRIVER)
        except OSError as error:
            raise GpuError(f"no GPU: NVIDIA's driver is not installed ({DRIVER})") from error
        try:
            self._driver: Any = importlib.import_module("cuda.bindings.driver")
        except (ImportError, OSError) as error:
            raise GpuError(
                f"no GPU: cuda-bindings cannot be imported ({error}); install cosyd[gpu]"
            ) from error
        try:
            self._call("cuInit", 0)
            self._device = self._call("cuDeviceGet", index)
            self._context = self._call("cuDevicePrimaryCtxRetain", self._device)
        except RuntimeError as error:  # cuda.bindings finds no libcuda
            raise GpuError(f"no GPU: {error}") from error
        self.index = index
        self._here()
        self.stream = int(self._call("cuStreamCreate", _NON_BLOCKING))
        self._kernels: dict[tuple[Path, str], Any] = {}
        # The context is kept until the process ends: ONNX Runtime's sessions give memory back to it, and they
        # may live longer than this object.

    @property
    def usable(self) -> bool:
        """False once a fault has taken the context: nothing in this process can use the GPU any more."""
        self._driver.cuCtxSetCurrent(self._context)
        status = int(self._driver.cuStreamQuery(self.stream)[0])
        return status in (_SUCCESS, _NOT_READY)

    @property
    def capability(self) -> Capability:
        names = [f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}" for part in ("MAJOR", "MINOR")]
        attributes = [getattr(self._driver.CUdevice_attribute, name) for name in names]
        major, minor = (int(self._call("cuDeviceGetAttribute", each, self._device)) for each in attributes)
        return major, minor

    @property
    def name(self) -> str:
        raw = self._call("cuDeviceGetName", 100, self._device)
        return bytes(raw).split(b"\0")[0].decode()

    def allocate(self, nbytes: int) -> Buffer:
        self._here()
        address = int(self._call("cuMemAlloc", max(1, nbytes)))
        owner = _Allocation(self, address)
        self._call("cuMemsetD8", address, 0, max(1, nbytes))
        self._call("cuStreamSynchronize", 0)  # or it may come after what another stream writes here
        return Buffer(address, nbytes, owner)

    def write(self, buffer: Buffer, values: Array, stream: int = 0) -> None:
        data = np.ascontiguousarray(values)
        if data.nbytes > buffer.nbytes:
            raise ValueError(f"{data.nbytes} bytes into a buffer of {buffer.nbytes}")
        self._here()
        if data.nbytes:
            self._call("cuMemcpyHtoDAsync", buffer.address, data.ctypes.data, data.nbytes, stream)

    def read(self, buffer: Buffer, shape: tuple[int, ...], dtype: DTypeLike, stream: int = 0) -> Array:
        values = np.empty(shape, dtype)
        self._here()
        if values.nbytes:
            self._call("cuMemcpyDtoHAsync", values.ctypes.data, buffer.address, values.nbytes, stream)
        self.synchronize(stream)
        return values

    def copy(self, target: Buffer, source: Buffer, nbytes: int, stream: int = 0) -> None:
        self._here()
        self._call("cuMemcpyDtoDAsync", target.address, source.address, nbytes, stream)

    def synchronize(self, stream: int = 0) -> None:
        """Raises InferenceError for a fault of something enqueued before."""
        self._here()
        self._call("cuStreamSynchronize", stream)

    def row_table(self, lanes: Sequence[Lane], n: int) -> RowTable:
        from cosyd.engine.cuda_rows import CudaRowTable

        return CudaRowTable(self, lanes, n)

    def kernel(self, ptx: Path, name: str) -> Any:
        """A kernel of a PTX file, which the driver compiles once; it lives as long as the context."""
        key = (ptx, name)
        if key not in self._kernels:
            self._here()
            code = ctypes.create_string_buffer(ptx.read_bytes())
            module = self._call("cuModuleLoadData", ctypes.addressof(code))
            self._kernels[key] = self._call("cuModuleGetFunction", module, name.encode())
        return self._kernels[key]

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, int],
        block: int,
        arguments: tuple[tuple[Any, ...], tuple[Any, ...]],
        stream: int = 0,
    ) -> None:
        """``grid`` blocks of ``block`` threads; ``arguments``: their values and their C types."""
        self._here()
        self._call("cuLaunchKernel", kernel, *grid, 1, block, 1, 1, 0, stream, arguments, 0)

    def used(self) -> tuple[int, int]:
        """Bytes in use by all programs, and bytes there are."""
        self._here()
        free, total = self._call("cuMemGetInfo")
        return int(total) - int(free), int(total)

    def _here(self) -> None:
        self._call("cuCtxSetCurrent", self._context)

    def _call(self, name: str, *arguments: Any) -> Any:
        status, *values = getattr(self._driver, name)(*arguments)
        if int(status) != 0:
            text = self._driver.cuGetErrorString(status)[1]
            reason = text.decode() if isinstance(text, bytes) else str(status)
            kind = InferenceError if name == "cuStreamSynchronize" else GpuError
            raise kind(f"{name} failed: {reason}")
        return None if not values else values[0] if len(values) == 1 else tuple(values)
