"""TensorRT (or TensorRT-RTX) as an engine.

One execution context for each profile, made when it is first needed or at warm-up, so that a change of size
never waits for a context to change profiles. Addresses and shapes are set only where they changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.execution import Bound, BoundExecution
from cosyd.engine.library import Contexts, Library
from cosyd.engine.logger import make_logger
from cosyd.engine.memory import Buffer, Memory
from cosyd.engine.plan import Plan, write_whole
from cosyd.engine.profiles import Profile, choose_profile
from cosyd.engine.tensors import Misuse, TensorSpec, check_feeds, sizes_of
from cosyd.errors import InferenceError, ModelDamaged
from cosyd.types import Backend

Array = NDArray[Any]


class TrtEngine:
    """An Engine. ``memory``: of the GPU that runs it. ``kernels``: file of what RTX made on the device
    earlier. Raises ModelDamaged for a plan that the library refuses."""

    def __init__(
        self,
        library: Library,
        plan: Plan,
        memory: Memory,
        *,
        name: str,
        reason: str,
        stream: int = 0,
        kernels: Path | None = None,
    ) -> None:
        self.name = name
        self.inputs, self.outputs, self.metadata = plan.inputs, plan.outputs, plan.metadata
        self.memory = memory
        self.backend = Backend(library.title, reason)
        self.profiles: tuple[Profile, ...] = plan.profiles
        self._library = library
        self._stream = stream
        self._kernels_path = kernels
        self._logger = make_logger(library.module)
        self._runtime = library.module.Runtime(self._logger)
        self._engine = self._runtime.deserialize_cuda_engine(plan.code)
        if self._engine is None:
            raise ModelDamaged(f"{name}: {library.title} refuses its plan: {self._logger.last_error}")
        self._check_tensors()
        self._contexts: Contexts | None = library.contexts(self._engine, _read(kernels))
        self._own: _HostRun | None = None

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        self._open()
        check_feeds(self.name, self.inputs, feeds)
        if self._own is None:
            self._own = _HostRun(self.execution(), self.memory, self._stream)
        return self._own.run(feeds, [spec.name for spec in self.outputs] if outputs is None else outputs)

    def execution(self) -> TrtExecution:
        return TrtExecution(self, self._open(), self._library, self._logger)

    def keep_kernels(self) -> None:
        """Write what the library made on the device, so that the next start need not make it again."""
        kernels = self._open().kernels()
        if self._kernels_path is not None and kernels:
            write_whole(self._kernels_path, kernels)

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None
        self._engine = self._runtime = self._contexts = None

    def __enter__(self) -> TrtEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open(self) -> Contexts:
        if self._contexts is None:
            raise Misuse(f"{self.name}: the engine is closed")
        return self._contexts

    def _check_tensors(self) -> None:
        """The plan's description must be the engine's: names, types, and everything on the device."""
        module, engine = self._library.module, self._engine
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        for spec in (*self.inputs, *self.outputs):
            if spec.name not in names:
                raise ModelDamaged(f"{self.name}: the plan has no tensor {spec.name}")
            given = np.dtype(module.nptype(engine.get_tensor_dtype(spec.name)))
            if given != spec.dtype:
                raise ModelDamaged(
                    f"{self.name}: {spec.name} is {given} in the plan, {spec.dtype} in the network"
                )
            if engine.get_tensor_location(spec.name) != module.TensorLocation.DEVICE:
                raise ModelDamaged(
                    f"{self.name}: {spec.name} decides shapes and would have to be on the host"
                )


def _read(path: Path | None) -> bytes:
    """Empty where there is nothing."""
    with contextlib.suppress(OSError):
        return b"" if path is None else path.read_bytes()
    return b""


class TrtExecution(BoundExecution):
    """Contexts by profile, made when first needed."""

    def __init__(self, engine: TrtEngine, maker: Contexts, library: Library, logger: Any) -> None:
        super().__init__(engine.name, engine.inputs, engine.outputs, engine.memory)
        self._maker, self._library, self._logger = maker, library, logger
        self._profiles = engine.profiles
        self._contexts: dict[int, Any] = {}
        self._current = -1

    def prepare(self, stream: int = 0) -> None:
        """The contexts of all profiles."""
        for index in range(max(1, len(self._profiles))):
            self._context(index, stream)

    def _check_sizes(self, sizes: dict[str, int]) -> None:
        if self._profiles:
            choose_profile(self.name, self._profiles, sizes)

    def _launch(self, table: int, changed: Sequence[Bound], stream: int) -> None:
        index = choose_profile(self.name, self._profiles, self._sizes) if self._profiles else 0
        if index != self._current:
            changed = [self._bound(name) for name in self.specs]
        context = self._context(index, stream)
        self._current = -1  # until all is bound: a failure on the way binds everything anew
        for bound in changed:
            self._bind(context, bound)
        self._check_outputs(context, changed)
        if not context.execute_async_v3(stream):
            raise InferenceError(f"{self.name} failed on {self._library.title}: {self._logger.last_error}")
        self._current = index

    def _context(self, index: int, stream: int) -> Any:
        if index not in self._contexts:
            context = self._maker.new()
            if context is None:
                raise InferenceError(f"{self.name}: no memory for a context: {self._logger.last_error}")
            if len(self._profiles) > 1 and not context.set_optimization_profile_async(index, stream):
                raise InferenceError(f"{self.name}: profile {index} refused: {self._logger.last_error}")
            self._contexts[index] = context
        return self._contexts[index]

    def _bind(self, context: Any, bound: Bound) -> None:
        name = bound.spec.name
        fits = name not in self._inputs or context.set_input_shape(name, bound.shape)
        if not (fits and context.set_tensor_address(name, bound.buffer.address)):
            shape = list(bound.shape)
            raise InferenceError(f"{self.name}: {name} {shape} refused: {self._logger.last_error}")

    def _check_outputs(self, context: Any, changed: Sequence[Bound]) -> None:
        """The library does not know how large our buffers are."""
        for bound in changed:
            if bound.spec.name in self._inputs:
                continue
            shape = tuple(context.get_tensor_shape(bound.spec.name))
            if shape != bound.shape:
                expected, given = list(shape), list(bound.shape)
                raise Misuse(f"{self.name}: {bound.spec.name} is {expected}, bound as {given}")

    def infer(self, sizes: dict[str, int], stream: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the outputs for these sizes of the inputs' axes."""
        index = choose_profile(self.name, self._profiles, sizes) if self._profiles else 0
        context = self._context(index, stream)
        for name in self._inputs:
            if not context.set_input_shape(name, self.specs[name].sized(sizes)):
                raise InferenceError(f"{self.name}: {name} refused: {self._logger.last_error}")
        self._current = -1
        return {
            name: tuple(context.get_tensor_shape(name)) for name in self.specs if name not in self._inputs
        }

    def _release(self) -> None:
        self._contexts.clear()


class _HostRun:
    """Arrays in, arrays out: buffers that grow with the largest run so far."""

    def __init__(self, execution: TrtExecution, memory: Memory, stream: int) -> None:
        self._execution, self._memory, self._stream = execution, memory, stream
        self._buffers: dict[str, Buffer] = {}

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        execution = self._execution
        specs = execution.specs
        given = [specs[name] for name in feeds]
        sizes = sizes_of(execution.name, given, {name: value.shape for name, value in feeds.items()})
        shapes = execution.infer(sizes, self._stream)
        sizes = {**sizes, **_sizes_of_outputs(specs, shapes)}
        for name, value in feeds.items():
            self._memory.write(self._room(specs[name], value.shape), value, self._stream)
        for name, shape in shapes.items():
            self._room(specs[name], shape)
        execution.resize(**sizes)
        execution.enqueue(self._stream)
        return {
            name: self._memory.read(self._buffers[name], shapes[name], specs[name].dtype, self._stream)
            for name in outputs
        }

    def close(self) -> None:
        self._execution.close()
        self._buffers.clear()

    def _room(self, spec: TensorSpec, shape: tuple[int, ...]) -> Buffer:
        nbytes = int(np.prod(shape, dtype=np.int64)) * spec.dtype.itemsize
        buffer = self._buffers.get(spec.name)
        if buffer is None or buffer.nbytes < nbytes:
            self._memory.synchronize(self._stream)
            buffer = self._buffers[spec.name] = self._memory.allocate(nbytes)
            self._execution.bind(spec.name, buffer)
        return buffer


def _sizes_of_outputs(
    specs: Mapping[str, TensorSpec], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        for axis, length in zip(specs[name].shape, shape, strict=True):
            if isinstance(axis, str):
                sizes[axis] = length
    return sizes
