"""Is there a GPU, and what is missing to use it? Nothing of it is imported, only looked for."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosyd.config.schema import GpuConfig
from cosyd.gpu import kernels

DEVICES = (Path("/dev/nvidiactl"), Path("/dev/nvhost-gpu"), Path("/dev/nvgpu"))  # PC; Jetson; newer Jetson
DRIVER = "libcuda.so.1"
PACKAGES = {
    "pycuda": "pip install 'cosyd[gpu]' (needs CUDA's headers), or apt install python3-pycuda",
    "cuda.bindings": "pip install 'cosyd[gpu]', or pip install cuda-bindings in CUDA's version",
}
_COMPUTE_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


@dataclass(frozen=True)
class Refusal:
    """Why the front end does not run on a GPU. ``there``: one is there, and might be used."""

    reason: str
    there: bool = False


def refusal(config: GpuConfig, cache: Path) -> Refusal | None:
    """Why not on a GPU, as far as can be seen without touching it; None: try it. ``cache``: of kernels."""
    if config.backend == "cpu":
        return Refusal("gpu.backend is cpu")
    if (reason := why_unusable()) is not None:
        return Refusal(reason)
    for package, remedy in missing_packages():
        return Refusal(f"a GPU is there, but {package} is not installed: {remedy}", there=True)
    arch = architecture()
    if arch is not None and not kernels.origin(arch, cache):
        return Refusal(
            f"a GPU is there (sm_{arch}), but no machine code for it: install nvcc or cuda-bindings, "
            "or a package with fatbins",
            there=True,
        )
    return None


def why_unusable() -> str | None:
    """Why no GPU can be used; None if one can."""
    if not any(path.exists() for path in DEVICES):
        return "no NVIDIA GPU: there is no /dev/nvidiactl, nor a Jetson's /dev/nvhost-gpu"
    count = device_count()
    if count is None:
        return f"the driver's library {DRIVER} cannot be loaded or initialised"
    return None if count else "the driver sees no GPU"


def missing_packages() -> Iterator[tuple[str, str]]:
    """Packages that are needed beside the driver and not installed, each with what to do."""
    for package, remedy in PACKAGES.items():
        if not installed(package):
            yield package, remedy


def installed(package: str) -> bool:
    """Whether it can be found. A dotted name's parent is imported for that: an empty namespace package."""
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False


def _driver() -> ctypes.CDLL | None:
    """The driver's library, initialised; None when it does not work."""
    try:
        cuda = ctypes.CDLL(DRIVER)
    except OSError:
        return None
    return cuda if cuda.cuInit(0) == 0 else None


def device_count() -> int | None:
    """GPUs that the driver counts; None when it does not work."""
    cuda, count = _driver(), ctypes.c_int(0)
    if cuda is None or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return None
    return count.value


def architecture(device: int = 0) -> int | None:
    """90 for sm_90; None when the driver does not say."""
    cuda, handle = _driver(), ctypes.c_int(0)
    if cuda is None or cuda.cuDeviceGet(ctypes.byref(handle), device) != 0:
        return None
    parts = []
    for attribute in _COMPUTE_CAPABILITY:
        value = ctypes.c_int(0)
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle) != 0:
            return None
        parts.append(value.value)
    return 10 * parts[0] + parts[1]


def driver_says() -> str:
    """The GPUs' names as the driver lists them, where it does."""
    folders = Path("/proc/driver/nvidia/gpus")
    names = []
    for information in sorted(folders.glob("*/information")):
        lines = information.read_text(errors="replace").splitlines()
        names += [line.split(":", 1)[1].strip() for line in lines if line.startswith("Model:")]
    return ", ".join(names)
