"""Front ends for the tests of the host's part: the reference pipeline with networks that are rules."""

from __future__ import annotations

import numpy as np
from front_end_fakes import HalvingDenoiser, LoudnessVad

from cosyd.config.schema import FrontendConfig
from cosyd.errors import GpuError
from cosyd.frontend.contract import needs_denoiser
from cosyd.frontend.front_end import FrontEnd
from cosyd.gpu.front_end import GpuFrontEnd
from cosyd.gpu.reference.pipeline import ReferencePipeline
from cosyd.gpu.settings import settings_for
from cosyd.types import Backend

FAKE = Backend("fake gpu", "for tests")


class OneVad:
    """The same of one stream, as the reference pipeline takes it."""

    def __init__(self) -> None:
        self._mean = 0.0

    def __call__(self, chunk: np.ndarray) -> float:
        self._mean = 0.5 * self._mean + 0.5 * float(np.sqrt(np.mean(chunk * chunk)))
        return self._mean


class OneDenoiser:
    def __init__(self) -> None:
        self._line = np.zeros(384)

    def __call__(self, hop: np.ndarray) -> np.ndarray:
        self._line = np.concatenate((self._line, hop))
        out, self._line = self._line[:128], self._line[128:]
        return 0.5 * out


class FaultyPipeline(ReferencePipeline):
    """``fail_at``: the launch, from 0, that fails with all after it; ``collecting``: its result does."""

    def __init__(self, *arguments: object, fail_at: int | None = None, collecting: bool = False) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.fail_at, self.collecting, self.launches = fail_at, collecting, 0

    @property
    def broken(self) -> bool:
        return self.fail_at is not None and self.launches > self.fail_at

    def launch(self) -> int:
        self.launches += 1
        if self.broken and not self.collecting:
            raise GpuError("fake: a step failed: injected")
        return super().launch()

    def collect(self, ticket: int):
        if self.broken:
            raise GpuError("fake: a step failed: injected")
        return super().collect(ticket)


def cpu_front(config: FrontendConfig) -> FrontEnd:
    slots = config.max_streams
    return FrontEnd(
        config, LoudnessVad(slots), HalvingDenoiser(slots) if needs_denoiser(config) else None, slots
    )


def gpu_front(
    config: FrontendConfig, rates: tuple[int, ...] = (16_000, 44_100, 48_000), **fault: object
) -> GpuFrontEnd:
    from dataclasses import replace

    settings = replace(settings_for(config), rates_hz=rates, lent=True)
    denoiser = OneDenoiser if settings.denoise else None
    return GpuFrontEnd(FaultyPipeline(settings, OneVad, denoiser, **fault), FAKE)
