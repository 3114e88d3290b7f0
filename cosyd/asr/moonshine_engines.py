"""Where Moonshine's networks run: on a GPU that can, else on the processor; and what happens when one fails.

On a GPU they are three networks in standard ONNX (``cosyd.engine.moonshine``), opened through
``choose_engine``: TensorRT, or ONNX Runtime's CUDA provider. On the processor 8-bit networks are
faster, so no network of a GPU is ever run there for longer than the request during which it failed. A small
GPU may be slower than the processor: with ``gpu.backend: auto`` both are timed, once, and the faster stays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosyd.asr.moonshine_healing import HealingNetworks, Renew, time_of
from cosyd.asr.moonshine_networks import Networks, open_on_processor
from cosyd.asr.recognizer import Audio
from cosyd.config.schema import GpuConfig
from cosyd.errors import CosydError, GpuError, ModelError

if TYPE_CHECKING:
    from cosyd.asr.moonshine_device import DeviceNetworks

SPEECH = ("demo-speech", "beckett.wav")  # beside the model, where it was pulled: checks other precisions
SPEECH_S = 6


class NotOnGpu(ModelError):
    """Why these networks do not run on a GPU here."""


def open_networks(
    folder: Path,
    name: str,
    gpu: GpuConfig,
    cache: Path,
    *,
    threads: int = 1,
    renew: Renew | None = None,
    alive: Callable[[], None] | None = None,
) -> Networks:
    """From a folder with the published files. ``cache``: ``paths.cache``. ``renew``: asks for a new process,
    when only that can use the GPU again. ``alive`` is called now and then: the first time takes long.

    Raises ModelMissing or ModelDamaged; GpuError where a GPU is required and cannot be used.
    """
    why = why_on_processor(gpu)
    if not why:
        try:
            device = open_on_gpu(folder, gpu, cache, alive)
        except (CosydError, OSError) as error:
            why = str(error)
        else:
            return _healing(folder, name, gpu, cache, threads, renew, device)
    if gpu.require_gpu:
        raise GpuError(f"gpu.require_gpu: {name} cannot run on a GPU: {why}; see cosyd doctor")
    return open_on_processor(folder, name, threads=threads, reason=why)


def why_on_processor(gpu: GpuConfig) -> str:
    """Why not on a GPU, as far as can be seen without opening it; empty: try it."""
    from cosyd.engine.cuda import DRIVER

    if gpu.backend == "cpu":
        return "gpu.backend is cpu"
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return f"no GPU: NVIDIA's driver is not installed ({DRIVER})"
    return _no_engine(gpu)


def _no_engine(gpu: GpuConfig) -> str:
    """What is missing of that which runs networks on a GPU; empty where there is something."""
    from cosyd.engine.library import TensorRtMissing, load_library
    from cosyd.engine.ort_cuda import missing_provider

    provider = missing_provider()
    if provider is None:
        return ""
    if gpu.engine == "onnxruntime":
        return provider
    try:
        load_library()
    except TensorRtMissing as error:
        return f"{error}; {provider}"
    return ""


def open_on_gpu(
    folder: Path, gpu: GpuConfig, cache: Path, alive: Callable[[], None] | None = None
) -> DeviceNetworks:
    """Raises NotOnGpu, GpuError, ModelMissing, ModelDamaged; OSError where the cache cannot be written."""
    from cosyd.asr.moonshine_device import DeviceNetworks
    from cosyd.engine.choose import choose_engine, look_around
    from cosyd.engine.moonshine import moonshine
    from cosyd.engine.prepared import onnx_folder

    machine = look_around()
    if machine.memory is None:
        raise NotOnGpu(machine.no_gpu)
    if machine.no_cuda_provider and (machine.library is None or gpu.engine == "onnxruntime"):
        raise NotOnGpu("; ".join(filter(None, (machine.no_tensorrt, machine.no_cuda_provider))))
    alive = alive or _nothing
    parts = moonshine(folder, onnx_folder(cache), _speech(folder), alive)
    # Only who requires a GPU waits for plans: meanwhile the processor serves, which HealingNetworks sees to.
    patient = gpu if gpu.require_gpu else gpu.model_copy(update={"backend": "auto"})
    engines: list[Any] = []
    try:
        for network in (parts.encoder, parts.first, parts.following):
            engines.append(choose_engine(network, patient, cache, machine=machine, alive=alive)[0])
            alive()
    except CosydError:
        for engine in engines:
            engine.close()
        raise
    return DeviceNetworks(*engines)


def _speech(folder: Path) -> Audio | None:
    """Some seconds to check other precisions with, where the store has them."""
    from cosyd.engine.recipe import read_wav

    path = folder.parent.joinpath(*SPEECH)
    return read_wav(path)[: SPEECH_S * 16_000] if path.is_file() else None


def _healing(
    folder: Path,
    name: str,
    gpu: GpuConfig,
    cache: Path,
    threads: int,
    renew: Renew | None,
    device: DeviceNetworks,
) -> HealingNetworks:
    from cosyd.engine.trial import Revival

    return HealingNetworks(
        device,
        lambda: open_on_gpu(folder, gpu, cache),
        lambda: open_on_processor(folder, name, threads=threads),
        Revival() if renew else None,
        renew,
        measure=time_of if gpu.backend == "auto" and not gpu.require_gpu else None,
    )


def _nothing() -> None:
    pass
