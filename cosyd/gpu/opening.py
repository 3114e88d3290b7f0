"""Opens the GPU that a front end runs on: memory, kernels, networks, the first bank of streams, warm."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from cosyd.config.schema import FrontendConfig
from cosyd.errors import GpuError
from cosyd.frontend.contract import needs_denoiser
from cosyd.frontend.factory import DENOISE_MODEL, VAD_MODEL
from cosyd.gpu.banks import Banks
from cosyd.gpu.driver import Gpu
from cosyd.gpu.front_end import GpuFrontEnd
from cosyd.gpu.load import GpuLoad
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.routes import Told
from cosyd.gpu.settings import Settings, settings_for
from cosyd.gpu.streams import RATES_HZ
from cosyd.gpu.weights import DtlnWeights, VadWeights, read_dtln, read_vad
from cosyd.models.store import ModelStore
from cosyd.types import Backend, GpuUsage

BANK_SLOTS = 64  # streams that memory is taken for at a time: 2 MB of states, 3 MB of buffers
# The widest hop: 8 channels of 32 bit at 96 kHz, or 32 of 16 bit at 48 kHz. Wider ones run on the CPU.
CHANNELS, SAMPLE_BYTES = 8, 4

Weights = tuple[VadWeights, DtlnWeights | None]


def open_device(
    frontend: FrontendConfig, store: ModelStore, cache: Path, told: Told, stack: ExitStack
) -> Banks:
    """The device with its first bank, warm. What was opened is closed again when it fails."""
    with ExitStack() as opening:
        gpu = opening.enter_context(Gpu(cache, alive=told.alive))
        settings = settings_for(frontend, channels=CHANNELS, sample_bytes=SAMPLE_BYTES)
        slots = min(frontend.max_streams, BANK_SLOTS)
        settings = replace(settings, slots=slots, rates_hz=RATES_HZ, mel=None, lent=True)
        open_bank = _bank_opener(gpu, settings, _weights(frontend, store))
        load = GpuLoad()
        opening.callback(load.close)
        banks = Banks(open_bank, -(-frontend.max_streams // slots), _usage(gpu, load))
        opening.callback(banks.close)
        before = gpu.memory.used
        banks.grow()
        if frontend.max_streams > slots:
            gpu.memory.reserve(gpu.memory.used - before)  # enough for one more bank
        stack.push(opening.pop_all())
    return banks


def _bank_opener(gpu: Gpu, settings: Settings, weights: Weights) -> Callable[[], GpuFrontEnd]:
    backend = Backend("cuda", f"{gpu.name}, own kernels, {settings.mode}")

    def open_bank() -> GpuFrontEnd:
        pipeline = Pipeline(gpu, settings, *weights).__enter__()
        try:
            pipeline.warm_up()
        except GpuError:
            pipeline.close()
            raise
        return GpuFrontEnd(pipeline, backend)

    return open_bank


def _usage(gpu: Gpu, load: GpuLoad) -> Callable[[], GpuUsage]:
    return lambda: replace(gpu.memory.usage(), load=load.read())


def _weights(frontend: FrontendConfig, store: ModelStore) -> Weights:
    vad = read_vad(store.require(VAD_MODEL) / "silero_vad_16k_op15.onnx")
    if not needs_denoiser(frontend):
        return vad, None
    folder = store.require(DENOISE_MODEL)
    return vad, read_dtln(folder / "model_1.onnx", folder / "model_2.onnx")
