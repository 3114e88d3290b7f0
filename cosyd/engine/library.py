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

    def new_context(self, engine: Any, kernels: bytes | None = None) -> tuple[Any, Any]:
        """An execution context, and RTX's cache of kernels (None for TensorRT), filled from ``kernels``."""
        if not self.rtx:
            return engine.create_execution_context(), None
        config = engine.create_runtime_config()
        cache = config.create_runtime_cache()
        if kernels:
            cache.deserialize(kernels)
        config.set_runtime_cache(cache)
        return engine.create_execution_context(config), cache


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
