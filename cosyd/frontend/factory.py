"""Makes the front end that a configuration asks for, on the CPU; `cosyd.gpu.factory` adds a GPU's."""

from __future__ import annotations

from pathlib import Path

from cosyd.config.schema import FrontendConfig
from cosyd.frontend.contract import needs_denoiser
from cosyd.frontend.dtln import Dtln
from cosyd.frontend.front_end import FrontEnd
from cosyd.frontend.silero import SileroVad
from cosyd.frontend.stage import Detector, Stage
from cosyd.models.store import ModelStore

DENOISE_MODEL = "dtln"
VAD_MODEL = "silero-vad-6"


def models_needed(config: FrontendConfig) -> list[str]:
    """Names of the models that this configuration takes."""
    return [VAD_MODEL, DENOISE_MODEL] if needs_denoiser(config) else [VAD_MODEL]


def make_vad(store: ModelStore, slots: int) -> Detector:
    """The voice activity stage, its model verified."""
    return SileroVad(store.require(VAD_MODEL) / "silero_vad_16k_op15.onnx", slots)


def make_denoiser(store: ModelStore, slots: int) -> Stage:
    """The noise suppression stage, its model verified."""
    folder: Path = store.require(DENOISE_MODEL)
    return Dtln(folder / "model_1.onnx", folder / "model_2.onnx", slots)


def make_front_end(config: FrontendConfig, store: ModelStore) -> FrontEnd:
    """The whole front end for ``config.max_streams`` streams."""
    vad = make_vad(store, config.max_streams)
    denoiser = make_denoiser(store, config.max_streams) if needs_denoiser(config) else None
    return FrontEnd(config, vad, denoiser, config.max_streams)
