"""Networks that are rules, for front ends of which only the plumbing is at stake; and how to run one."""

from __future__ import annotations

import numpy as np

from cosyd.frontend.contract import FrontBatch, StreamFrontEnd
from cosyd.frontend.filters import Delay
from cosyd.spec import FRAME
from cosyd.types import Backend


class BlockByBlock:
    """A detector whose rule is about one block: of several it is asked one after the other."""

    def process(self, slots: np.ndarray, x: np.ndarray) -> np.ndarray:
        raise AssertionError("whoever inherits has the rule")

    def detect(self, slots: np.ndarray, x: np.ndarray) -> np.ndarray:
        blocks = np.split(x, x.shape[1] // FRAME.block, axis=1)
        return np.stack([self.process(slots, block) for block in blocks], axis=1)


class LoudnessVad(BlockByBlock):
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


def drain(front: StreamFrontEnd) -> list[FrontBatch]:
    return list(iter(front.step, None))


def feed(
    front: StreamFrontEnd,
    slot: int,
    x: np.ndarray,
    cuts: list[int] | None = None,
    at: int = 0,
    flush: bool = True,
) -> list[FrontBatch]:
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
