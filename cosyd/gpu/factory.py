"""Opens the front end that a configuration asks for, on a GPU where there is one, and says why not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from cosyd.config.schema import FrontendConfig, GpuConfig
from cosyd.engine.trial import Revival
from cosyd.errors import GpuError
from cosyd.frontend.contract import StreamFrontEnd
from cosyd.frontend.factory import make_front_end
from cosyd.gpu.probe import Refusal, refusal
from cosyd.gpu.routes import Told
from cosyd.gpu.routing import RoutedFrontEnd
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import Health

log = logging.getLogger("cosyd.gpu")

WARM_UP_S = 0.2  # of audio through the CPU's networks: their first runs are slower


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
                # Loaded only where there is a GPU: elsewhere it would be a tenth of a second of every start.
                from cosyd.gpu.opening import open_device

                banks = open_device(frontend, store, cache, told, stack)
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


def warm_up(front: StreamFrontEnd) -> None:
    """Run all stages on silence: streams that come, or come over, find them warm."""
    spec = AudioSpec(FRAME.rate_hz, 1, SampleFormat.F32)
    slot = front.open(spec)
    front.push(slot, np.zeros((spec.frames(WARM_UP_S), 1), np.float32), 0)
    front.flush(slot)
    while front.step() is not None:
        pass
    front.close(slot)
