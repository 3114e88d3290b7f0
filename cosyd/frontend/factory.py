"""Makes the front end that a configuration asks for: which stages, on which backend, and why on that one."""

from __future__ import annotations

from pathlib import Path

from cosyd.config.schema import FrontendConfig, GpuConfig
from cosyd.errors import GpuError
from cosyd.frontend.dtln import Dtln
from cosyd.frontend.front_end import FrontEnd, needs_denoiser
from cosyd.frontend.silero import SileroVad
from cosyd.frontend.stage import Stage
from cosyd.models.store import ModelStore
from cosyd.types import Backend

DENOISE_MODEL = "dtln"
VAD_MODEL = "silero-vad-6"


def models_needed(config: FrontendConfig) -> list[str]:
    """Names of the models that this configuration takes."""
    return [VAD_MODEL, DENOISE_MODEL] if needs_denoiser(config) else [VAD_MODEL]


def choose_backend(gpu: GpuConfig) -> Backend:
    """Where the front end's stages run. Raises GpuError where a GPU is demanded: there is no such stage."""
    if gpu.backend == "cuda" or gpu.require_gpu:
        key = "gpu.backend: cuda" if gpu.backend == "cuda" else "gpu.require_gpu"
        raise GpuError(f"{key}: the front end has no CUDA stages yet; set gpu.backend to cpu or auto")
    if gpu.backend == "cpu":
        return Backend("cpu", "gpu.backend is cpu")
    return Backend("cpu", "the front end has no CUDA stages yet")


def make_vad(store: ModelStore, slots: int, gpu: GpuConfig) -> tuple[Stage, Backend]:
    """The voice activity stage, its model verified."""
    backend = choose_backend(gpu)
    model = store.require(VAD_MODEL) / "silero_vad_16k_op15.onnx"
    return SileroVad(model, slots), backend


def make_denoiser(store: ModelStore, slots: int, gpu: GpuConfig) -> tuple[Stage, Backend]:
    """The noise suppression stage, its model verified."""
    backend = choose_backend(gpu)
    folder: Path = store.require(DENOISE_MODEL)
    return Dtln(folder / "model_1.onnx", folder / "model_2.onnx", slots), backend


def make_front_end(config: FrontendConfig, gpu: GpuConfig, store: ModelStore) -> tuple[FrontEnd, Backend]:
    """The whole front end for ``config.max_streams`` streams, and what it runs on."""
    vad, backend = make_vad(store, config.max_streams, gpu)
    denoiser = make_denoiser(store, config.max_streams, gpu)[0] if needs_denoiser(config) else None
    return FrontEnd(config, vad, denoiser, config.max_streams), backend
