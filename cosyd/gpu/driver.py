"""CUDA, behind one file: the only importer of PyCUDA and cuda.bindings, and only when a Gpu is opened.

PyCUDA serves the context, modules, memory and streams; it has no wrappers for graphs, so those come from
cuda.bindings.driver. Both share the device's primary context, as does any other library of the process.
Everything is used from the thread that opened the Gpu.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cosyd.errors import GpuError
from cosyd.gpu.kernels import NAMES, machine_code

Array = NDArray[Any]

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING, which PyCUDA does not name


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise GpuError(f"no GPU: {name} cannot be imported ({error}); install cosyd[gpu]") from error


class DeviceArray:
    """A piece of device memory with a shape. ``address`` is stable until ``free``."""

    def __init__(self, gpu: Gpu, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._gpu = gpu
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.nbytes = max(1, int(np.prod(shape, dtype=np.int64))) * self.dtype.itemsize
        self._memory = gpu.allocate(self.nbytes)
        self.address = int(self._memory)

    def set(self, values: Array) -> None:
        """Blocking copy of all values from the host; for setting up and tests."""
        data = np.ascontiguousarray(values, self.dtype)
        if data.shape != self.shape:
            raise ValueError(f"{data.shape} into device array {self.shape}")
        self._gpu.cuda.memcpy_htod(self.address, data)

    def get(self) -> Array:
        """Blocking copy to the host; for tests."""
        values = np.empty(self.shape, self.dtype)
        self._gpu.cuda.memcpy_dtoh(values, self.address)
        return values

    def clear(self) -> None:
        self._gpu.cuda.memset_d8(self.address, 0, self.nbytes)

    def free(self) -> None:
        """Once; what still runs on the device must not use it."""
        self._memory.free()
        self._gpu.allocated -= self.nbytes


class Gpu:
    """One device: its primary context, the kernels, memory. Opens in ``__enter__``."""

    def __init__(self, cache: Path, device: int = 0) -> None:
        self._cache = cache
        self._index = device
        self._stack = ExitStack()
        self._modules: dict[str, Any] = {}
        self.allocated = 0
        self._collected: list[DeviceArray] | None = None
        self._trace: list[tuple[str, Any, Any]] | None = None

    def __enter__(self) -> Gpu:
        self.cuda = _load("pycuda.driver")
        self.graphs = _load("cuda.bindings.driver")
        try:
            self.cuda.init()
            device = self.cuda.Device(self._index)
            context = device.retain_primary_context()
            context.push()
        except self.cuda.Error as error:
            raise GpuError(f"no GPU: device {self._index} cannot be opened: {error}") from error
        self._stack.callback(self.cuda.Context.pop)
        self.name = str(device.name())
        major, minor = device.compute_capability()
        self.arch = 10 * major + minor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent. Graphs and arrays must be gone or unused by now."""
        self._modules.clear()
        self._stack.close()

    def stream(self) -> Any:
        """A stream that does not wait for the default stream."""
        return self.cuda.Stream(_NON_BLOCKING)

    def event(self) -> Any:
        """An event without a clock; one that was never recorded counts as reached."""
        return self.cuda.Event(self.cuda.event_flags.DISABLE_TIMING)

    def allocate(self, nbytes: int) -> Any:
        try:
            memory = self.cuda.mem_alloc(nbytes)
        except self.cuda.Error as error:
            free, total = self.cuda.mem_get_info()
            raise GpuError(
                f"{self.name}: {nbytes:,} bytes could not be allocated ({free:,} of {total:,} free); "
                "lower frontend.max_streams"
            ) from error
        self.allocated += nbytes
        return memory

    def array(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> DeviceArray:
        """Zeroed device memory."""
        array = self._keep(DeviceArray(self, tuple(shape), dtype))
        array.clear()
        return array

    def upload(self, values: Array) -> DeviceArray:
        array = self._keep(DeviceArray(self, values.shape, values.dtype))
        array.set(values)
        return array

    def _keep(self, array: DeviceArray) -> DeviceArray:
        if self._collected is not None:
            self._collected.append(array)
        return array

    @contextmanager
    def collecting(self) -> Iterator[list[DeviceArray]]:
        """Gives the list of all arrays that are made inside, for who has to free them."""
        arrays: list[DeviceArray] = []
        self._collected = arrays
        try:
            yield arrays
        finally:
            self._collected = None

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        """Zeroed page-locked host memory, so that copies run beside kernels and the host's work."""
        memory: NDArray[np.uint8] = self.cuda.pagelocked_zeros(nbytes, np.uint8)
        return memory

    def module(self, name: str) -> Any:
        """Kernel file ``name`` as a loaded module."""
        if name not in NAMES:
            raise GpuError(f"no kernel file {name!r}; there are {', '.join(NAMES)}")
        if name not in self._modules:
            code = machine_code(name, self.arch, self._cache)
            try:
                self._modules[name] = self.cuda.module_from_buffer(code)
            except self.cuda.Error as error:
                raise GpuError(f"{self.name}: {name} for sm_{self.arch} does not load: {error}") from error
        return self._modules[name]

    def constant(self, module: str, symbol: str) -> int:
        """An int that a module exports, such as the size of a structure."""
        address, _ = self.module(module).get_global(symbol)
        value = np.empty(1, np.int32)
        self.cuda.memcpy_dtoh(value, address)
        return int(value[0])

    def launch(
        self,
        module: str,
        kernel: str,
        grid: tuple[int, ...],
        block: int,
        *arguments: Any,
        stream: Any = None,
        shared: int = 0,
    ) -> None:
        """Arguments: DeviceArray, numpy scalars (np.int32, np.float32) and structures (np.void)."""
        function = self.module(module).get_function(kernel)
        values = [np.uintp(a.address) if isinstance(a, DeviceArray) else a for a in arguments]
        full = (*grid, *(1,) * (3 - len(grid)))
        if self._trace is None:
            function(*values, grid=full, block=(block, 1, 1), stream=stream, shared=shared)
            return
        begin, end = self.cuda.Event(), self.cuda.Event()
        begin.record(stream)
        function(*values, grid=full, block=(block, 1, 1), stream=stream, shared=shared)
        end.record(stream)
        self._trace.append((f"{len(self._trace):02d} {kernel}", begin, end))

    @contextmanager
    def tracing(self) -> Iterator[Callable[[], list[tuple[str, float]]]]:
        """Launches inside are timed on the device; call the result afterwards: (kernel, milliseconds)."""
        trace: list[tuple[str, Any, Any]] = []
        self._trace = trace

        def times() -> list[tuple[str, float]]:
            self.cuda.Context.synchronize()
            return [(name, float(begin.time_till(end))) for name, begin, end in trace]

        try:
            yield times
        finally:
            self._trace = None

    @contextmanager
    def capture(self, stream: Any) -> Iterator[Graph]:
        """What is launched on ``stream`` inside becomes the graph that this gives."""
        mode = self.graphs.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._check(self.graphs.cuStreamBeginCapture(stream.handle, mode), "beginning a capture")
        graph = Graph(self)
        yield graph
        graph.instantiate(self._check(self.graphs.cuStreamEndCapture(stream.handle), "ending a capture"))

    def _check(self, result: tuple[Any, ...], what: str) -> Any:
        status, *values = result
        if int(status):
            raise GpuError(f"{self.name}: {what} failed: {status}")
        return values[0] if values else None


class Graph:
    """A captured sequence of copies and kernels; one launch runs all of it."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._exec: Any = None

    def instantiate(self, graph: Any) -> None:
        driver = self._gpu.graphs
        self._exec = self._gpu._check(driver.cuGraphInstantiate(graph, 0), "instantiating a graph")
        self._gpu._check(driver.cuGraphDestroy(graph), "destroying a graph")

    def launch(self, stream: Any) -> None:
        (status,) = self._gpu.graphs.cuGraphLaunch(self._exec, stream.handle)
        if int(status):
            raise GpuError(f"{self._gpu.name}: launching a step failed: {status}")

    def close(self) -> None:
        if self._exec is not None:
            self._gpu._check(self._gpu.graphs.cuGraphExecDestroy(self._exec), "destroying a graph")
            self._exec = None
