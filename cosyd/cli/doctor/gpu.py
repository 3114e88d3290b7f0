"""Is there a GPU, what is missing to use it, and what will each stage run on? Nothing of it is opened."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from cosyd.asr.moonshine_engines import why_on_processor
from cosyd.asr.recognizers import runs_whisper
from cosyd.cli.doctor.check import Check, Setup, fail, ok, warn
from cosyd.config.schema import Config
from cosyd.frontend.contract import needs_denoiser
from cosyd.gpu import kernels, probe
from cosyd.gpu.probe import Refusal, refusal, why_unusable
from cosyd.models.store import ModelStore
from cosyd.runtime.assembly import KERNELS

CUDA_PROVIDER = "libonnxruntime_providers_cuda.so"
CPU_REMEDY = "install what is missing, or set gpu.backend: auto and gpu.require_gpu: false"


def examine(setup: Setup) -> Iterator[Check]:
    config, cache = setup.config, setup.paths.cache / KERNELS
    why = refusal(config.gpu, cache)
    yield backend(config, why)
    yield from stages(config, why)
    yield recogniser(config, ModelStore(setup.paths.models))
    if (reason := why_unusable()) is not None:
        yield ok("gpu.device", reason)
        return
    yield ok("gpu.device", probe.driver_says() or "a GPU answers")
    if config.gpu.backend != "cpu":
        yield from _libraries()
        yield kernel_code(cache)


def backend(config: Config, why: Refusal | None) -> Check:
    """What was asked for, and whether it can be had."""
    asked = config.gpu
    if why is None:
        return ok("gpu.backend", "the front end runs on the GPU")
    if asked.require_gpu or asked.backend == "cuda":
        key = "gpu.require_gpu" if asked.require_gpu else "gpu.backend is cuda"
        return fail("gpu.backend", f"{key}, but {why.reason}", CPU_REMEDY)
    if why.there:
        return warn("gpu.backend", f"the front end runs on the CPU: {why.reason}", CPU_REMEDY)
    return ok("gpu.backend", f"the front end runs on the CPU: {why.reason}")


def stages(config: Config, why: Refusal | None) -> Iterator[Check]:
    """What each stage runs on, and why there."""
    where = f"CPU: {why.reason}" if why else "GPU: one is there with all that is needed"
    yield ok("stage.vad", where)
    off = "nobody would hear it (frontend.denoise, vad_input, asr_input)"
    yield ok("stage.denoise", where if needs_denoiser(config.frontend) else f"none: {off}")


def recogniser(config: Config, store: ModelStore) -> Check:
    """Of a model with engines for a GPU; which of them, ``engine.choice`` says."""
    model, asked = config.asr.model, config.gpu
    if runs_whisper(model, store):
        return ok("stage.asr", f"CPU: {model} runs there, whatever gpu.backend is")
    why = why_on_processor(asked)
    if not why:
        faster = "" if asked.backend == "cuda" or asked.require_gpu else ", if it is faster than the CPU"
        return ok("stage.asr", f"GPU{faster}: one is there with all that is needed")
    if asked.require_gpu or asked.backend == "cuda":
        return fail("stage.asr", f"CPU, but a GPU is asked for: {why}", CPU_REMEDY)
    return ok("stage.asr", f"CPU: {why}")


def _libraries() -> Iterator[Check]:
    """What is needed beside the driver; only asked where there is a GPU."""
    for package, remedy in probe.PACKAGES.items():
        name, there = f"gpu.{package}", probe.installed(package)
        yield ok(name, "installed") if there else warn(name, "not installed", remedy)
    if probe.installed("tensorrt"):
        yield ok("gpu.tensorrt", "installed")
    else:
        remedy = "install TensorRT's Python package; on a Jetson it is part of JetPack"
        yield warn("gpu.tensorrt", "not installed", remedy)
    if has_cuda_provider():
        yield ok("gpu.onnxruntime", "has the CUDA provider")
    else:
        message = "this onnxruntime has no CUDA provider: its networks run on the CPU"
        yield warn(
            "gpu.onnxruntime", message, "pip install onnxruntime-gpu (x86-64), or NVIDIA's wheel on a Jetson"
        )


def kernel_code(cache: Path) -> Check:
    """Where the kernels' machine code for this GPU comes from."""
    arch = probe.architecture()
    if arch is None:
        return warn("gpu.kernels", "the driver does not tell the GPU's architecture", "update the driver")
    if where := kernels.origin(arch, cache):
        return ok("gpu.kernels", f"sm_{arch}: {where}")
    remedy = "install nvcc or cuda-bindings, or a package with fatbins (make wheel)"
    return warn("gpu.kernels", f"no machine code for sm_{arch} and no compiler", remedy)


def has_cuda_provider() -> bool:
    """Whether ONNX Runtime's CUDA library is there."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        return False
    return (Path(spec.origin).parent / "capi" / CUDA_PROVIDER).exists()
