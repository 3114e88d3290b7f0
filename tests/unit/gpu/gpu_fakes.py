"""Front ends for the tests of the host's part: the reference pipeline with networks that are rules."""

from __future__ import annotations

import numpy as np

from cosyd.config.schema import FrontendConfig
from cosyd.errors import GpuError
from cosyd.frontend.filters import Delay
from cosyd.frontend.front_end import FrontBatch, FrontEnd, needs_denoiser
from cosyd.gpu.front_end import GpuFrontEnd, settings_for
from cosyd.gpu.reference.pipeline import ReferencePipeline
from cosyd.types import Backend

FAKE = Backend("fake gpu", "for tests")


class LoudnessVad:
    """A stage: a running mean of the loudness, so that its state matters."""

    backend = Backend("fake", "for tests")
    delay = 0

    def __init__(self, slots: int) -> None:
        self._mean = np.zeros(slots, np.float32)

    def reset(self, slots: np.ndarray) -> None:
        self._mean[slots] = 0

    def process(self, slots: np.ndarray, x: np.ndarray) -> np.ndarray:
        self._mean[slots] = 0.5 * self._mean[slots] + 0.5 * np.sqrt(np.mean(x * x, axis=1))
        return self._mean[slots].copy()


class HalvingDenoiser(Delay):
    """A stage: halves the signal, as late as the real one does."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots, 384)

    def process(self, slots: np.ndarray, x: np.ndarray) -> np.ndarray:
        return 0.5 * super().process(slots, x)


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


def drain(front) -> list[FrontBatch]:
    return list(iter(front.step, None))


def feed(front, slot: int, x: np.ndarray, cuts: list[int] | None = None, at: int = 0, flush: bool = True):
    """Push everything, cut at ``cuts``, stepping between; then flush. All batches."""
    out: list[FrontBatch] = []
    for piece in np.split(x, cuts or []):
        while len(piece):
            taken = front.push(slot, piece, at)
            piece, at = piece[taken:], at + taken
            out += drain(front)
    if flush:
        front.flush(slot)
    return out + drain(front)


def rows(batches: list[FrontBatch], slot: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(samples, audio [blocks, block], probabilities) of one slot."""
    picked = [
        (b.samples[i], b.asr[i], b.vad_prob[i]) for b in batches for i in np.flatnonzero(b.slots == slot)
    ]
    samples, audio, probability = zip(*picked, strict=True)
    return np.array(samples), np.array(audio), np.array(probability)
