"""Is there a GPU, and what is missing to use it? Nothing of it is imported, only looked for."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from cosyd.cli.doctor.check import Check, Setup, fail, ok, warn
from cosyd.errors import GpuError
from cosyd.frontend.factory import choose_backend

DEVICES = (Path("/dev/nvidiactl"), Path("/dev/nvhost-gpu"), Path("/dev/nvgpu"))  # PC; Jetson; newer Jetson
DRIVER = "libcuda.so.1"
CUDA_PROVIDER = "libonnxruntime_providers_cuda.so"
PACKAGES = {
    "pycuda": "apt install python3-pycuda, or pip install pycuda",
    "tensorrt": "install TensorRT's Python package; on a Jetson it is part of JetPack",
}


def examine(setup: Setup) -> Iterator[Check]:
    try:
        chosen = choose_backend(setup.config.gpu)
    except GpuError as error:
        yield fail("gpu.backend", str(error), "set gpu.backend: auto and gpu.require_gpu: false")
    else:
        yield ok("gpu.backend", f"networks run on {chosen.name}: {chosen.reason}")
    reason = why_unusable()
    if reason is not None:
        yield ok("gpu.device", reason)
        return
    yield ok("gpu.device", driver_says() or "a GPU answers")
    if setup.config.gpu.backend != "cpu":
        yield from _libraries()


def _libraries() -> Iterator[Check]:
    """What is needed beside the driver; only asked where there is a GPU."""
    for package, remedy in PACKAGES.items():
        there = importlib.util.find_spec(package) is not None
        yield ok(f"gpu.{package}", "installed") if there else warn(f"gpu.{package}", "not installed", remedy)
    if has_cuda_provider():
        yield ok("gpu.onnxruntime", "has the CUDA provider")
    else:
        message = "this onnxruntime has no CUDA provider: its networks run on the CPU"
        yield warn(
            "gpu.onnxruntime", message, "pip install onnxruntime-gpu (x86-64), or NVIDIA's wheel on a Jetson"
        )


def why_unusable() -> str | None:
    """Why no GPU can be used; None if one can."""
    if not any(path.exists() for path in DEVICES):
        return "no NVIDIA GPU: there is no /dev/nvidiactl, nor a Jetson's /dev/nvhost-gpu"
    count = device_count()
    if count is None:
        return f"the driver's library {DRIVER} cannot be loaded or initialised"
    return None if count else "the driver sees no GPU"


def device_count() -> int | None:
    """GPUs that the driver counts; None when it does not work."""
    try:
        cuda = ctypes.CDLL(DRIVER)
    except OSError:
        return None
    count = ctypes.c_int(0)
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return None
    return count.value


def driver_says() -> str:
    """The GPUs' names as the driver lists them, where it does."""
    folders = Path("/proc/driver/nvidia/gpus")
    names = []
    for information in sorted(folders.glob("*/information")):
        lines = information.read_text(errors="replace").splitlines()
        names += [line.split(":", 1)[1].strip() for line in lines if line.startswith("Model:")]
    return ", ".join(names)


def has_cuda_provider() -> bool:
    """Whether ONNX Runtime's CUDA library is there."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        return False
    return (Path(spec.origin).parent / "capi" / CUDA_PROVIDER).exists()
