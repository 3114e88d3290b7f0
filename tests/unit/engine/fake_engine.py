"""A TensorRT engine over the fake library and memory of the host."""

from __future__ import annotations

from cosyd.engine.compile import BuildRequest, compile_plan
from cosyd.engine.library import load_library
from cosyd.engine.memory import HostMemory, Memory
from cosyd.engine.profiles import Profile
from cosyd.engine.trt import TrtEngine

LARGEST = 8
LIBRARIES = ("fake_tensorrt",)
PROFILES = (Profile.of({"N": (1, 1, 2)}), Profile.of({"N": (1, 4, LARGEST)}))  # so that sizes choose contexts


def open_fake(data: bytes, memory: Memory | None = None) -> TrtEngine:
    plan = compile_plan(BuildRequest("test network", data, PROFILES, libraries=LIBRARIES))
    library = load_library(LIBRARIES)
    return TrtEngine(library, plan, memory or HostMemory(), name="test network", reason="test")
