"""CUDA, behind one file: the only importer of PyCUDA and cuda.bindings, and only when a Gpu is opened.

PyCUDA serves the context, modules, memory and streams; it has no wrappers for graphs, so those come from
cuda.bindings.driver. Both share the device's primary context, as does any other library of the process.
Everything is used from the thread that opened the Gpu.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cosyd.errors import GpuError
from cosyd.gpu.device_array import DeviceArray
from cosyd.gpu.driver_memory import DriverMemory
from cosyd.gpu.graph import Graph, checked
from cosyd.gpu.kernels import NAMES, machine_code, prepare
from cosyd.gpu.memory import DeviceMemory

log = logging.getLogger("cosyd.gpu")

Array = NDArray[Any]

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING, which PyCUDA does not name
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_DEVICE_MAP, _READ_ONLY = 2, 8  # CU_MEMHOSTREGISTER_DEVICEMAP, _READ_ONLY
ANSWER_S = 2.0  # a hop takes milliseconds at most; a device that is silent for so long does not come back
_SPINS = 400  # looks without a pause, some 200 us: as long as a hop of a few streams takes
_LOOK_EVERY_S = 50e-6  # then others get the processor between looks


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise GpuError(f"no GPU: {name} cannot be imported ({error}); install cosyd[gpu]") from error


def _nobody_waits() -> None:
    pass


class Gpu:
    """One device: its primary context, the kernels, memory. Opens in ``__enter__``.

    ``memory``: all device memory is taken there.
    """

    memory: DeviceMemory

    def __init__(self, cache: Path, device: int = 0, alive: Callable[[], None] = _nobody_waits) -> None:
        """``cache``: of compiled kernels; ``alive`` is called now and then while they are compiled."""
        self._cache = cache
        self._alive = alive
        self._index = device
        self._stack = ExitStack()
        self._modules: dict[str, Any] = {}
        self._silent = False  # it did not answer in time: asking again would wait for ever
        self._collected: list[DeviceArray] | None = None
        self._trace: list[tuple[str, Any, Any]] | None = None

    def __enter__(self) -> Gpu:
        self.cuda = _load("pycuda.driver")
        self.graphs = _load("cuda.bindings.driver")
        try:
            self.cuda.init()
            device = self.cuda.Device(self._index)
            self._context = device.retain_primary_context()
            self._context.push()
        except self.cuda.Error as error:
            raise GpuError(f"no GPU: device {self._index} cannot be opened: {error}") from error
        self._stack.callback(self.cuda.Context.pop)
        self.name = str(device.name())
        major, minor = device.compute_capability()
        self.arch = 10 * major + minor
        try:
            prepare(self.arch, self._cache, self._alive)
            raw = DriverMemory(self.graphs, self._index)
        except GpuError:
            self._stack.close()
            raise
        self.memory = DeviceMemory(raw, self.name)
        self._stack.callback(self.memory.close)
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

    def wait(self, event: Any) -> None:
        """Until ``event`` is reached. Raises GpuError when work before it failed or the device is silent.

        Looks again and again instead of blocking: a device that is gone would hold the thread for ever.
        """
        deadline = 0.0
        try:
            for _ in range(_SPINS):
                if event.query():
                    return
            while not event.query():
                now = time.monotonic()
                deadline = deadline or now + ANSWER_S
                if now > deadline:
                    self._silent = True
                    raise GpuError(f"{self.name} does not answer: a step is not done after {ANSWER_S:g} s")
                time.sleep(_LOOK_EVERY_S)
        except self.cuda.Error as error:
            raise GpuError(f"{self.name}: a step failed: {error}") from error

    def record(self, event: Any, stream: Any) -> None:
        try:
            event.record(stream)
        except self.cuda.Error as error:
            raise GpuError(f"{self.name}: a step failed: {error}") from error

    def order(self, first: int, then: int) -> None:
        """What is enqueued on ``then`` from now on begins after all that ``first`` has so far (CUstreams as
        integers). Nothing waits on the host."""
        driver, what = self.graphs, "ordering two streams"
        event = checked(driver.cuEventCreate(_NO_TIMING), self.name, what)
        try:
            checked(driver.cuEventRecord(event, first), self.name, what)
            checked(driver.cuStreamWaitEvent(then, event, 0), self.name, what)
        finally:
            driver.cuEventDestroy(event)  # once it is reached

    def settle(self, owner: object) -> bool:
        """Wait until the device has nothing to do; False when it is dead or silent.

        Then ``owner``, with the streams, events and memory that it refers to, stays for ever: there is
        nothing to give back, and PyCUDA would complain of each on standard error.
        """
        if not self._silent:
            try:
                self.cuda.Context.synchronize()
            except self.cuda.Error as error:
                log.debug("%s: waiting for it at the end failed: %s", self.name, error)
            else:
                return True
        for kept in (owner, self._modules, self._context):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        self._modules = {}
        return False

    @contextmanager
    def translated(self, what: str) -> Iterator[None]:
        """PyCUDA's errors inside become GpuError."""
        try:
            yield
        except self.cuda.Error as error:
            raise GpuError(f"{self.name}: {what} failed: {error}") from error

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

    def register(self, address: int, nbytes: int) -> int:
        """Map memory of the host, whole pages, for the device to read; its address there.

        Read-only where the device can (the pages may be mapped so here), else as it is.
        """
        driver = self.graphs
        for flags in (_DEVICE_MAP | _READ_ONLY, _DEVICE_MAP):
            (status,) = driver.cuMemHostRegister(address, nbytes, flags)
            if not int(status):
                break
        else:
            raise GpuError(f"{self.name}: the driver does not map the ring's pages: {status.name}")
        status, pointer = driver.cuMemHostGetDevicePointer(address, 0)
        if int(status):
            self.unregister(address)
            raise GpuError(f"{self.name}: the ring's pages have no address on the device: {status.name}")
        return int(pointer)

    def unregister(self, address: int) -> None:
        """Before the memory goes away. Never fails: a dead device has no mappings."""
        (status,) = self.graphs.cuMemHostUnregister(address)
        if int(status):
            log.debug("%s: unmapping pages failed: %s", self.name, status)

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
        checked(self.graphs.cuStreamBeginCapture(stream.handle, mode), self.name, "beginning a capture")
        graph = Graph(self.graphs, self.name)
        yield graph
        captured = self.graphs.cuStreamEndCapture(stream.handle)
        graph.instantiate(checked(captured, self.name, "ending a capture"))
