"""ONNX Runtime as an engine, on the CPU or on CUDA with our own stream and pointers (IOBinding)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.execution import Bound, BoundExecution
from cosyd.engine.memory import HostMemory, Memory
from cosyd.engine.tensors import Misuse, TensorSpec, check_feeds
from cosyd.errors import InferenceError, ModelDamaged
from cosyd.models.onnx import Network, open_session
from cosyd.types import Backend

Array = NDArray[Any]

_DTYPES = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "int8": "int8",
    "uint8": "uint8",
    "int16": "int16",
    "uint16": "uint16",
    "int32": "int32",
    "uint32": "uint32",
    "int64": "int64",
    "uint64": "uint64",
    "bool": "bool",
}


def open_ort_cpu(
    model: Path | bytes,
    *,
    threads: int = 1,
    arena: bool = False,
    name: str | None = None,
    reason: str = "ONNX Runtime on the processor",
) -> OrtEngine:
    """An ONNX (or ORT) file on the CPU. Raises ModelMissing, ModelDamaged.

    ``arena``: see ``open_session``; worth it where shapes never vary.
    """
    network = open_session(model, threads=threads, arena=arena, name=name)
    return OrtEngine(network, HostMemory(), Backend("onnxruntime CPU", reason))


def open_streams_cpu(
    file: Path, *, threads: int = 1, reason: str = "ONNX Runtime on the processor"
) -> OrtEngine:
    """A network that takes a chunk of many streams, as it is quickest on the processor. Raises ModelMissing,
    ModelDamaged."""
    from cosyd.engine.depthwise import with_quick_convolutions

    # With an arena: shapes differ in the number of streams alone, of which there are few.
    model = with_quick_convolutions(file)
    return open_ort_cpu(model, threads=threads, arena=True, name=str(file), reason=reason)


class OrtEngine:
    """An Engine. Executions on CUDA use the one stream that the network was opened with."""

    def __init__(self, network: Network, memory: Memory, backend: Backend, stream: int = 0) -> None:
        self._network: Network | None = network
        self.name = network.name
        self.inputs = _specs(network.name, network.session.get_inputs())
        self.outputs = _specs(network.name, network.session.get_outputs())
        self.metadata: Mapping[str, str] = dict(network.session.get_modelmeta().custom_metadata_map)
        self.memory = memory
        self.backend = backend
        self._stream = stream

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        network = self._open()
        names = network.outputs if outputs is None else outputs
        try:
            values = network.run(feeds, names)
        except InferenceError:  # ONNX Runtime checks all that we would; we say better what is wrong
            check_feeds(self.name, self.inputs, feeds)
            raise
        return dict(zip(names, values, strict=True))

    def execution(self) -> OrtExecution:
        return OrtExecution(self, self._open(), self._stream)

    def close(self) -> None:
        if self._network is not None and not self.memory.usable:
            _abandon(self._network.session)
        self._network = None

    def __enter__(self) -> OrtEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open(self) -> Network:
        if self._network is None:
            raise Misuse(f"{self.name}: the engine is closed")
        return self._network


class OrtExecution(BoundExecution):
    """Two IOBindings, for even and odd steps."""

    tables = 2

    def __init__(self, engine: OrtEngine, network: Network, stream: int) -> None:
        super().__init__(engine.name, engine.inputs, engine.outputs, engine.memory)
        self._network = network
        self._stream = stream
        self._bindings = [network.session.io_binding() for _ in range(self.tables)]

    def _launch(self, table: int, changed: Sequence[Bound], stream: int) -> None:
        if stream != self._stream:
            raise Misuse(f"{self.name}: opened for stream {self._stream:#x}, not {stream:#x}")
        binding = self._bindings[table]
        for bound in changed:
            bind = binding.bind_input if bound.spec.name in self._inputs else binding.bind_output
            bind(
                bound.spec.name,
                self._memory.device,
                0,
                bound.spec.dtype.type,
                bound.shape,
                bound.buffer.address,
            )
        # Waits for the device. Told not to, ONNX Runtime keeps the page-locked pieces that some operators
        # copy from until the session goes, and then gives them back from a callback of CUDA's, which is not
        # allowed to and ends the process. Whoever runs a step reads its results next anyway.
        self._network.run_bound(binding)

    def _check_sizes(self, sizes: dict[str, int]) -> None:
        """ONNX Runtime takes any size; what does not fit the network fails when it runs."""

    def _release(self) -> None:
        self._bindings.clear()


def _abandon(session: Any) -> None:
    """Let it live for ever: giving memory back to a context that is gone, ONNX Runtime ends the process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))


def _specs(network: str, values: Sequence[Any]) -> tuple[TensorSpec, ...]:
    """ONNX Runtime's list of inputs or outputs; only plain tensors can be bound."""
    specs = []
    for value in values:
        kind = _DTYPES.get(value.type.removeprefix("tensor(").removesuffix(")"))
        if kind is None:
            raise ModelDamaged(f"{network}: {value.name} is {value.type}, which cosyd does not take")
        specs.append(TensorSpec.of(value.name, np.dtype(kind), value.shape))
    return tuple(specs)
