"""The fake of TensorRT with what TensorRT-RTX has besides: targets, and kernels made at run time."""

from __future__ import annotations

import enum
from typing import Any

import fake_tensorrt
from fake_tensorrt import *  # noqa: F403
from fake_tensorrt import __version__ as __version__

RTX = True
LOADED: list[bytes] = []  # what runtime caches were filled with


class ComputeCapability(enum.IntEnum):
    SM86 = 86
    SM89 = 89


class _Cache:
    def deserialize(self, blob: bytes) -> bool:
        LOADED.append(bytes(blob))
        return True

    def serialize(self) -> bytes:
        return b"kernels"


class _RuntimeConfig:
    def __init__(self) -> None:
        self.cache: Any = None

    def create_runtime_cache(self) -> _Cache:
        return _Cache()

    def set_runtime_cache(self, cache: _Cache) -> None:
        self.cache = cache


class _Engine(fake_tensorrt._Engine):
    def create_runtime_config(self) -> _RuntimeConfig:
        return _RuntimeConfig()

    def create_execution_context(self, config: _RuntimeConfig | None = None) -> Any:
        assert config is not None and config.cache is not None
        return super().create_execution_context()


class _Config(fake_tensorrt._Config):
    num_compute_capabilities = 0
    target: ComputeCapability | None = None

    def set_compute_capability(self, capability: ComputeCapability, index: int) -> None:
        assert 0 <= index < self.num_compute_capabilities
        self.target = capability


class Builder(fake_tensorrt.Builder):
    def create_builder_config(self) -> _Config:
        return _Config()

    def build_serialized_network(self, network: Any, config: Any) -> bytes | None:
        assert config.target is not None
        return super().build_serialized_network(network, config)


class Runtime(fake_tensorrt.Runtime):
    def deserialize_cuda_engine(self, plan: bytes) -> Any:
        engine = super().deserialize_cuda_engine(plan)
        if engine is not None:
            engine.__class__ = _Engine
        return engine
