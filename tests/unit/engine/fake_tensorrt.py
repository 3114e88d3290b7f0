"""The part of TensorRT's Python API that cosyd uses, on host memory.

Computed by ONNX Runtime; networks in half precision by ONNX's reference in NumPy, whose float16 overflows as
a GPU's does (ONNX Runtime widens it on the processor). It is as strict as the library: shapes outside a
profile, tensors without address, wrong profile numbers and plans that are not its own are refused in the
library's manner (None, False, -1, a message to the logger).
"""

from __future__ import annotations

import ctypes
import enum
import os
import pickle
import signal
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

__version__ = "10.5.0.18"
FAIL_STEPS: list[int] = []  # steps, counted from 1 over all contexts, at which execution fails
KILL_BUILD = "FAKE_TENSORRT_KILL"  # environment: the build ends itself with that signal
_steps = 0


class _Enum(enum.IntEnum):
    pass


class NetworkDefinitionCreationFlag(_Enum):
    STRONGLY_TYPED = 1


class MemoryPoolType(_Enum):
    WORKSPACE = 0


class BuilderFlag(_Enum):
    SPARSE_WEIGHTS = 5
    TF32 = 7


class TensorIOMode(_Enum):
    INPUT = 1
    OUTPUT = 2


class TensorLocation(_Enum):
    DEVICE = 0
    HOST = 1


class ILogger:
    class Severity(_Enum):
        INTERNAL_ERROR = 0
        ERROR = 1
        WARNING = 2
        INFO = 3
        VERBOSE = 4

    def __init__(self) -> None:
        pass


def steps() -> int:
    """How many there have been, over all contexts."""
    return _steps


def nptype(kind: Any) -> Any:
    return kind


class _Network:
    def __init__(self, flags: int) -> None:
        assert flags == 1 << 1, "strongly typed"
        self.onnx = b""


class OnnxParser:
    def __init__(self, network: _Network, logger: Any) -> None:
        self._network, self._errors = network, []
        self._logger = logger

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> str:
        return self._errors[index]

    def parse(self, data: bytes) -> bool:
        unknown = {n.op_type for n in onnx.load_model_from_string(data).graph.node if n.domain}
        if unknown:
            self._errors.append(f"In node 0: no importer for {sorted(unknown)[0]}\nmore")
            return False
        self._network.onnx = data
        return True


class _Profile:
    def __init__(self) -> None:
        self.ranges: dict[str, tuple[tuple[int, ...], ...]] = {}

    def set_shape(self, name: str, least: Any, usual: Any, most: Any) -> None:
        self.ranges[name] = (tuple(least), tuple(usual), tuple(most))


class _Config:
    def __init__(self) -> None:
        self.profiles: list[_Profile] = []
        self.flags: list[Any] = []
        self.workspace = 0
        self.builder_optimization_level = 3

    def set_memory_pool_limit(self, pool: MemoryPoolType, size: int) -> None:
        assert pool is MemoryPoolType.WORKSPACE
        self.workspace = size

    def set_flag(self, flag: BuilderFlag) -> None:
        self.flags.append(flag)

    def clear_flag(self, flag: BuilderFlag) -> None:
        assert flag is BuilderFlag.TF32

    def add_optimization_profile(self, profile: _Profile) -> int:
        self.profiles.append(profile)
        return len(self.profiles) - 1


class Builder:
    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def create_network(self, flags: int = 0) -> _Network:
        return _Network(flags)

    def create_builder_config(self) -> _Config:
        return _Config()

    def create_optimization_profile(self) -> _Profile:
        return _Profile()

    def build_serialized_network(self, network: _Network, config: _Config) -> bytes | None:
        if os.environ.get(KILL_BUILD):
            os.kill(os.getpid(), getattr(signal, os.environ[KILL_BUILD]))
        if config.workspace < 1 << 20:
            self._logger.log(ILogger.Severity.ERROR, "no tactic\nfits the workspace")
            return None
        ranges = [profile.ranges for profile in config.profiles]
        return pickle.dumps({"version": __version__, "onnx": network.onnx, "profiles": ranges})


class Runtime:
    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def deserialize_cuda_engine(self, plan: bytes) -> _Engine | None:
        try:
            content = pickle.loads(plan)
        except (pickle.UnpicklingError, EOFError, ValueError, IndexError):
            self._logger.log(
                ILogger.Severity.ERROR, "Serialization assertion failed: magic tag does not match"
            )
            return None
        return _Engine(content, self._logger)


class _Engine:
    def __init__(self, content: dict[str, Any], logger: Any) -> None:
        self.session = onnxruntime.InferenceSession(content["onnx"], providers=["CPUExecutionProvider"])
        self.profiles, self.logger = content["profiles"], logger
        model = onnx.load_model_from_string(content["onnx"])
        half = any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in model.graph.initializer)
        self.run = ReferenceEvaluator(model).run if half else self.session.run
        self._inputs = {value.name: value for value in self.session.get_inputs()}
        self._all = {**self._inputs, **{value.name: value for value in self.session.get_outputs()}}

    @property
    def num_io_tensors(self) -> int:
        return len(self._all)

    def get_tensor_name(self, index: int) -> str:
        return list(self._all)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if name in self._inputs else TensorIOMode.OUTPUT

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.DEVICE

    def get_tensor_dtype(self, name: str) -> Any:
        kinds = {
            "float": np.float32,
            "float16": np.float16,
            "int64": np.int64,
            "int32": np.int32,
            "bool": np.bool_,
        }
        return kinds[self._all[name].type[7:-1]]

    def create_execution_context(self) -> _Context:
        return _Context(self)


class _Context:
    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self._profile = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._known: tuple[dict[str, Any], dict[str, tuple[int, ...]]] = ({}, {})
        self._addresses: dict[str, int] = {}

    def _refuse(self, message: str) -> bool:
        self._engine.logger.log(ILogger.Severity.ERROR, message)
        return False

    def set_optimization_profile_async(self, index: int, stream: int) -> bool:
        if not 0 <= index < len(self._engine.profiles):
            return self._refuse(f"profile {index} does not exist")
        self._profile = index
        return True

    def set_input_shape(self, name: str, shape: Any) -> bool:
        shape = tuple(shape)
        ranges = self._engine.profiles[self._profile].get(name) if self._engine.profiles else None
        if ranges is not None:
            least, _, most = ranges
            if len(shape) != len(least) or not all(
                a <= b <= c for a, b, c in zip(least, shape, most, strict=True)
            ):
                return self._refuse(f"{name} {shape} is outside the profile")
        self._shapes[name] = shape
        return True

    def set_tensor_address(self, name: str, address: int) -> bool:
        if not address:
            return self._refuse(f"{name}: null address")
        self._addresses[name] = address
        return True

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        if name in self._shapes:
            return self._shapes[name]
        value = self._engine._all[name]
        sizes = {
            axis: length
            for name_, shape in self._shapes.items()
            for axis, length in zip(self._engine._inputs[name_].shape, shape, strict=True)
        }
        shape = tuple(sizes.get(axis, axis) for axis in value.shape)
        if all(isinstance(axis, int) for axis in shape) or len(self._shapes) < len(self._engine._inputs):
            return shape
        return self._computed()[name]

    def _computed(self) -> dict[str, tuple[int, ...]]:
        """Of outputs with lengths of their own, such as a cache that grows: by a run over zeros."""
        if self._known[0] != self._shapes:
            kinds = {name: self._engine.get_tensor_dtype(name) for name in self._engine._inputs}
            feeds = {name: np.zeros(shape, kinds[name]) for name, shape in self._shapes.items()}
            names = [value.name for value in self._engine.session.get_outputs()]
            results = self._engine.run(names, feeds)
            shapes = {name: value.shape for name, value in zip(names, results, strict=True)}
            self._known = dict(self._shapes), shapes
        return self._known[1]

    def execute_async_v3(self, stream: int) -> bool:
        global _steps
        _steps += 1
        if _steps in FAIL_STEPS:
            return self._refuse("Cuda Runtime (an illegal memory access was encountered)")
        unbound = [name for name in self._engine._all if name not in self._addresses]
        if unbound:
            return self._refuse(f"address is not set for {unbound[0]}")
        feeds = {name: self._view(name, self._shapes[name]) for name in self._engine._inputs}
        names = [value.name for value in self._engine.session.get_outputs()]
        with np.errstate(all="ignore"):
            results = self._engine.run(names, feeds)
        for name, value in zip(names, results, strict=True):
            self._view(name, value.shape)[...] = value
        return True

    def _view(self, name: str, shape: Any) -> Any:
        kind = np.dtype(self._engine.get_tensor_dtype(name))
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        raw = (ctypes.c_uint8 * size).from_address(self._addresses[name])
        return np.frombuffer(raw, np.uint8).view(kind).reshape(shape)
