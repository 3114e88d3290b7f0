"""TensorRT and TensorRT-RTX: one interface, and all in which they differ.

They share their Python API but for what is here: the name of the package, what an engine is compiled for (the
GPU that is there; RTX: named compute capabilities, no GPU needed), which GPUs it runs on, and when kernels
are made (at build time; RTX: on the device at first use, kept in a runtime cache).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from cosyd.errors import ModelError

Capability = tuple[int, int]

TENSORRT = "tensorrt"
RTX = ("tensorrt_rtx", "tensorrt_rtx_bindings")
NAMES = (TENSORRT, *RTX)
OLDEST = (
    10,
    3,
)  # JetPack 6's; before 10 a network cannot be strongly typed, before 10.3 int64 tensors are patchy
RTX_RUNS_ON = (
    (7, 5),
    (8, 0),
    (8, 6),
    (8, 9),
    (12, 0),
    (12, 1),
)  # others are refused when an engine is loaded


class TensorRtMissing(ModelError):
    """There is no usable TensorRT; the message says why."""


@dataclass(frozen=True)
class Library:
    """A loaded TensorRT. ``module`` is the library's own."""

    module: Any
    rtx: bool
    version: str

    @property
    def title(self) -> str:
        return f"TensorRT-RTX {self.version}" if self.rtx else f"TensorRT {self.version}"

    def refuses(self, capability: Capability) -> str | None:
        """Why engines cannot run on such a GPU; None if they can."""
        if self.rtx and capability not in RTX_RUNS_ON:
            return f"{self.title} does not run on compute capability {capability[0]}.{capability[1]}"
        return None

    def set_target(self, config: Any, capability: Capability | None) -> None:
        """Compile for this compute capability. TensorRT itself compiles for the GPU that is there."""
        if not self.rtx or capability is None:
            return
        name = f"SM{capability[0]}{capability[1]}"
        known = self.module.ComputeCapability
        if not hasattr(known, name):
            raise ModelError(
                f"{self.title} does not compile for compute capability {capability[0]}.{capability[1]}"
            )
        config.num_compute_capabilities = 1
        config.set_compute_capability(getattr(known, name), 0)

    def network_flags(self) -> int:
        """Types are as the network says. Later versions know nothing else and may drop the flag."""
        flag = getattr(self.module.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        return 0 if flag is None else 1 << int(flag)

    def contexts(self, engine: Any, kernels: bytes = b"") -> Contexts:
        """What makes this engine's execution contexts. ``kernels``: what an earlier one kept."""
        return Contexts(engine, kernels if self.rtx else None)


class Contexts:
    """Makes execution contexts. RTX makes their kernels on the device when it first runs them; all contexts
    share one cache of these, which can be kept."""

    def __init__(self, engine: Any, kernels: bytes | None) -> None:
        self._engine = engine
        self._config: Any = None
        self._cache: Any = None
        if kernels is not None:
            self._config = engine.create_runtime_config()
            self._cache = self._config.create_runtime_cache()
            if kernels:
                self._cache.deserialize(kernels)  # it takes nothing from another GPU or version
            self._config.set_runtime_cache(self._cache)

    def new(self) -> Any:
        """None when there is no memory for it."""
        if self._config is None:
            return self._engine.create_execution_context()
        return self._engine.create_execution_context(self._config)

    def kernels(self) -> bytes:
        """To be kept for the next start; empty where they are in the plan."""
        return b"" if self._cache is None else bytes(self._cache.serialize())


def load_library(names: Sequence[str] = NAMES) -> Library:
    """The first that can be imported and is new enough. Raises TensorRtMissing with the reason for each."""
    reasons = []
    for name in names:
        try:
            return _checked(importlib.import_module(name), name)
        except (ImportError, OSError, RuntimeError) as error:
            first = (str(error).splitlines() or [""])[0]
            if not isinstance(error, ModuleNotFoundError) or error.name != name:
                reasons.append(f"{name} cannot be imported: {first}")
        except TensorRtMissing as error:
            reasons.append(str(error))
    raise TensorRtMissing("; ".join(reasons) or "neither tensorrt nor tensorrt_rtx is installed")


def _checked(module: ModuleType, name: str) -> Library:
    version = str(getattr(module, "__version__", ""))
    rtx = name != TENSORRT and (name in RTX or bool(getattr(module, "RTX", False)))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not numbers or not hasattr(module, "Builder"):
        raise TensorRtMissing(f"{name} is an empty package: TensorRT's libraries are not installed")
    if not rtx and numbers < OLDEST:
        raise TensorRtMissing(f"tensorrt {version} is too old: cosyd takes {OLDEST[0]}.{OLDEST[1]} and later")
    return Library(module, rtx, version)
