"""Opens the front end that a configuration asks for, on a GPU where there is one, and says why not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from cosyd.config.schema import FrontendConfig, GpuConfig
from cosyd.engine.trial import Revival
from cosyd.errors import GpuError
from cosyd.frontend.contract import StreamFrontEnd
from cosyd.frontend.factory import DENOISE_MODEL, VAD_MODEL, make_front_end
from cosyd.frontend.front_end import needs_denoiser
from cosyd.gpu.banks import Banks
from cosyd.gpu.driver import Gpu
from cosyd.gpu.front_end import GpuFrontEnd
from cosyd.gpu.load import GpuLoad
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.probe import Refusal, refusal
from cosyd.gpu.routes import Told
from cosyd.gpu.routing import RoutedFrontEnd
from cosyd.gpu.settings import Settings, settings_for
from cosyd.gpu.streams import RATES_HZ
from cosyd.gpu.weights import DtlnWeights, VadWeights, read_dtln, read_vad
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import Backend, GpuUsage, Health

log = logging.getLogger("cosyd.gpu")

BANK_SLOTS = 64  # streams that memory is taken for at a time: 2 MB of states, 3 MB of buffers
# The widest hop: 8 channels of 32 bit at 96 kHz, or 32 of 16 bit at 48 kHz. Wider ones run on the CPU.
CHANNELS, SAMPLE_BYTES = 8, 4
WARM_UP_S = 0.2  # of audio through the CPU's networks: their first runs are slower

Weights = tuple[VadWeights, DtlnWeights | None]


@contextmanager
def open_front_end(
    frontend: FrontendConfig, gpu: GpuConfig, store: ModelStore, cache: Path, told: Told
) -> Iterator[RoutedFrontEnd]:
    """The front end, warm. ``cache``: of compiled kernels.

    Raises ModelError; GpuError where a GPU is required and none is usable.
    """
    cpu = make_front_end(frontend, store)
    warm_up(cpu)
    with ExitStack() as stack:
        why, banks = refusal(gpu, cache), None
        if why is None:
            try:
                banks = _open_gpu(frontend, store, cache, told, stack)
            except GpuError as error:
                why = Refusal(str(error), there=True)
        if why is not None:
            _tell(gpu, why, told)
        reason, revival = why.reason if why else "", Revival() if banks else None
        routed = RoutedFrontEnd(cpu, frontend.max_streams, told, banks, reason, revival=revival)
        stack.callback(routed.shut)
        yield routed


def _tell(gpu: GpuConfig, why: Refusal, told: Told) -> None:
    """A GPU that was asked for, or is there for nothing, is not passed over in silence."""
    if gpu.require_gpu:
        raise GpuError(f"gpu.require_gpu: {why.reason}")
    if gpu.backend == "cpu":
        return
    severity = "error" if gpu.backend == "cuda" else "warning" if why.there else "info"
    text = f"the front end runs on the CPU: {why.reason}"
    if severity == "info":
        log.info(text)
        return
    log.warning(text)
    told.health(Health("gpu_unusable", "error" if severity == "error" else "warning", text))


def _open_gpu(
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


def warm_up(front: StreamFrontEnd) -> None:
    """Run all stages on silence: streams that come, or come over, find them warm."""
    spec = AudioSpec(FRAME.rate_hz, 1, SampleFormat.F32)
    slot = front.open(spec)
    front.push(slot, np.zeros((spec.frames(WARM_UP_S), 1), np.float32), 0)
    front.flush(slot)
    while front.step() is not None:
        pass
    front.close(slot)
