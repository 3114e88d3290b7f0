"""From kernel sources to machine code: packaged, cached on disk, or compiled now.

Order: a fatbin that was compiled ahead and ships with the package; the cache under ``paths.cache``; nvcc;
NVRTC. What was compiled is put into the cache under a key of sources, options and architecture, so a changed
source is never served by an old binary. ``prepare`` compiles all that is missing at once and says so.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from cosyd.errors import GpuError
from cosyd.spec import FRAME

log = logging.getLogger("cosyd.gpu")

NAMES = ("slots", "resample", "stats", "dtln", "vad", "fbank", "srp_phat", "beamform")
AS_PTX = ("rows",)  # of engines, which need neither nvcc nor PyCUDA: shipped as PTX, compiled by the driver
ARCHITECTURES = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120)  # 87 is Jetson Orin, 110 Jetson Thor (CUDA 13)
ALL = "all"  # label of fatbins for all of these, with PTX for later ones
ALIVE_EVERY_S = 5.0  # while files are compiled; a worker may be silent for a minute when it starts
COMPILE_TIMEOUT_S = 600  # the largest file takes 12 s on one core for one architecture

_OPTIONS = (f"-DCOSYD_HOP={FRAME.hop}", f"-DCOSYD_WINDOW={FRAME.window}", "-std=c++17")
_SOURCES = Path(__file__).parent / "cuda"
_PACKAGED = Path(__file__).parent / "fatbin"


def source_folder() -> Path:
    """Where the .cu files are: in the package; in a source tree that is a link to ``kernels/``."""
    if (_SOURCES / "common.cuh").is_file():
        return _SOURCES
    raise GpuError(f"{_SOURCES}: the kernel sources are missing from this installation; reinstall cosyd")


def source_key(name: str) -> str:
    """sha256 over what decides the machine code: the file, all headers, the options."""
    folder = source_folder()
    digest = hashlib.sha256(" ".join(_OPTIONS).encode())
    for path in (folder / f"{name}.cu", *sorted(folder.glob("*.cuh"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def find_nvcc() -> Path | None:
    """nvcc of CUDA_HOME, the PATH or the usual place."""
    home = os.environ.get("CUDA_HOME")
    places = [Path(home) / "bin/nvcc"] if home else []
    if on_path := shutil.which("nvcc"):
        places.append(Path(on_path))
    places.append(Path("/usr/local/cuda/bin/nvcc"))
    return next((path for path in places if path.is_file()), None)


def nvcc_command(nvcc: Path, name: str, arch: int, output: Path, extra: Sequence[str] = ()) -> list[str]:
    """The command that compiles one kernel file to a cubin of one architecture."""
    source = source_folder() / f"{name}.cu"
    return [str(nvcc), f"-arch=sm_{arch}", "-cubin", *_OPTIONS, *extra, "-o", str(output), str(source)]


def fatbin_command(
    nvcc: Path, name: str, output: Path, architectures: Sequence[int] = ARCHITECTURES
) -> list[str]:
    """The command for packaging: machine code of every architecture, and PTX of the newest for later ones."""
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    codes.append(f"-gencode=arch=compute_{architectures[-1]},code=compute_{architectures[-1]}")
    options = ("--threads=0", *codes, *_OPTIONS)  # one architecture a core
    return [str(nvcc), "-fatbin", *options, "-o", str(output), str(source_folder() / f"{name}.cu")]


def build_fatbins(folder: Path = _PACKAGED, architectures: Sequence[int] = ARCHITECTURES) -> list[Path]:
    """Compile all kernels ahead, for packaging: ``python -m cosyd.gpu.kernels``. Takes minutes."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise GpuError(
            "nvcc is needed to compile the kernels ahead; install CUDA's compiler or set CUDA_HOME"
        )
    folder.mkdir(parents=True, exist_ok=True)

    def build(name: str) -> Path:
        path = folder / f"{name}-{source_key(name)[:16]}-{_label(architectures)}.fatbin"
        command = fatbin_command(nvcc, name, path, architectures)
        _run_compiler(command, f"{name}.cu", COMPILE_TIMEOUT_S * len(architectures))
        return path

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(build, NAMES))


def prepare(arch: int, cache: Path, alive: Callable[[], None] = lambda: None) -> list[str]:
    """Compile into the cache what neither the package nor the cache has; the names of those files.

    All at once, as they do not depend on each other: as long as the largest takes where there are cores.
    Each is kept when it is done, so that a start that is broken off is not for nothing. ``alive`` is called
    meanwhile.
    """
    missing = [name for name in NAMES if _found(name, arch, cache) is None]
    if not missing:
        return []
    begun = time.monotonic()
    with_what = find_nvcc() or "NVRTC"
    log.info("compiling %d kernel files for sm_%d with %s, once: about 20 s", len(missing), arch, with_what)

    def make(name: str) -> bool:
        return _store(_cached(name, arch, cache), _compile(name, arch))

    with ThreadPoolExecutor(min(len(missing), os.cpu_count() or 1)) as pool:
        jobs = [pool.submit(make, name) for name in missing]
        while wait(jobs, ALIVE_EVERY_S).not_done:
            alive()
        kept = [job.result() for job in jobs]
    where = f"kept in {cache}" if all(kept) else f"{cache} cannot be written: the next start compiles again"
    log.info("kernels compiled in %.0f s, %s", time.monotonic() - begun, where)
    return missing


def origin(arch: int, cache: Path) -> str:
    """Where the machine code for ``arch`` will come from, in words; empty when there is no way to have it."""
    missing = [name for name in NAMES if _found(name, arch, cache) is None]
    if not missing:
        return "in the package" if _packaged(NAMES[0], arch) else f"compiled before, in {cache}"
    if nvcc := find_nvcc():
        return f"compiled by {nvcc} at the first start"
    return "compiled by NVRTC at the first start" if has_nvrtc() else ""


def has_nvrtc() -> bool:
    """Whether NVRTC's Python bindings are installed. Nothing is imported but the namespace package."""
    try:
        return importlib.util.find_spec("cuda.bindings.nvrtc") is not None
    except ImportError:
        return False


def machine_code(name: str, arch: int, cache: Path) -> bytes:
    """The module of kernel file ``name`` for ``arch`` (90 is sm_90). Raises GpuError with what is missing."""
    if (there := _found(name, arch, cache)) is not None:
        return there.read_bytes()
    code = _compile(name, arch)
    _store(_cached(name, arch, cache), code)
    return code


def _label(architectures: Sequence[int]) -> str:
    """What a fatbin is for, as part of its name."""
    return ALL if set(architectures) >= set(ARCHITECTURES) else ".".join(f"sm_{a}" for a in architectures)


def _packaged(name: str, arch: int) -> Path | None:
    """The fatbin that came with the package, if it is of these sources and for this architecture."""
    for path in sorted(_PACKAGED.glob(f"{name}-{source_key(name)[:16]}-*.fatbin")):
        label = path.stem.rsplit("-", 1)[1]
        if label == ALL or f"sm_{arch}" in label.split("."):
            return path
    return None


def _cached(name: str, arch: int, cache: Path) -> Path:
    return cache / f"{name}-{source_key(name)[:16]}-sm_{arch}.cubin"


def _found(name: str, arch: int, cache: Path) -> Path | None:
    """The file with the machine code, if there is one that is not empty."""
    places = _packaged(name, arch), _cached(name, arch, cache)
    return next((path for path in places if path and path.is_file() and path.stat().st_size), None)


def _compile(name: str, arch: int) -> bytes:
    nvcc = find_nvcc()
    return _with_nvcc(nvcc, name, arch) if nvcc else _with_nvrtc(name, arch)


def _with_nvcc(nvcc: Path, name: str, arch: int) -> bytes:
    with tempfile.TemporaryDirectory(prefix="cosyd-nvcc-") as folder:
        output = Path(folder) / f"{name}.cubin"
        _run_compiler(nvcc_command(nvcc, name, arch, output), f"{name}.cu for sm_{arch}")
        return output.read_bytes()


def _run_compiler(command: Sequence[str], what: str, timeout_s: float = COMPILE_TIMEOUT_S) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise GpuError(f"{command[0]} was not done with {what} after {timeout_s:g} s") from error
    except OSError as error:
        raise GpuError(f"{command[0]} could not compile {what}: {error}") from error
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
        raise GpuError(f"{command[0]} failed on {what}: {first}")


def _with_nvrtc(name: str, arch: int) -> bytes:
    try:
        nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise GpuError(
            f"no machine code of {name}.cu for sm_{arch}: "
            "install nvcc or cuda-bindings, or a package with fatbins"
        ) from error
    folder = source_folder()
    headers = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    options = [f"--gpu-architecture=sm_{arch}", f"-I{folder}", f"-I{headers}", *_OPTIONS]
    text = (folder / f"{name}.cu").read_bytes()
    _, program = nvrtc.nvrtcCreateProgram(text, f"{name}.cu".encode(), 0, [], [])
    encoded = [option.encode() for option in options]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
    if int(result):
        raise GpuError(f"NVRTC failed on {name}.cu for sm_{arch}: {_nvrtc_log(nvrtc, program)}")
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    code = bytes(size)
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(program)
    return code


def _nvrtc_log(nvrtc: Any, program: Any) -> str:
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    lines = log.decode(errors="replace").splitlines()
    return next((line for line in lines if "error" in line), "no message")


def _store(path: Path, code: bytes) -> bool:
    """Atomic; a cache that cannot be written (False) costs a compilation at each start, nothing else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.part")
        partial.write_bytes(code)
        partial.replace(path)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    build_fatbins()
