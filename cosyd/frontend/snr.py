"""How far speech stands out from the noise of each stream, followed block by block.

Speech is the mean power of the last second and a half in which the VAD hears it, noise the larger of two: the
mean power of the last second in which it hears none, and the least power of the last second and a half, which
knows of a noise that began while somebody speaks. What a stream is told follows from its own samples alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.stage import Samples, Slots
from cosyd.spec import FRAME

Decibels = NDArray[np.float32]

SPEECH_PROB, NOISE_PROB = 0.5, 0.15  # of what is between, nobody knows whose it is
SPEECH_BLOCKS, NOISE_BLOCKS = FRAME.blocks(1_500), FRAME.blocks(1_000)
LEAST_OF = FRAME.blocks(1_500)  # longer than anyone speaks without a gap of one block
KNOWN_AFTER = FRAME.blocks(500)  # blocks of speech
UNKNOWN = np.float32(-np.inf)
_FLOOR = 1e-10  # -100 dBFS, below any device's noise


class SnrTracker:
    """The state of ``slots`` streams."""

    def __init__(self, slots: int) -> None:
        self._speech, self._noise = (_Mean(slots, blocks) for blocks in (SPEECH_BLOCKS, NOISE_BLOCKS))
        self._recent = np.full((slots, LEAST_OF), np.inf)
        self._next = np.zeros(slots, np.intp)

    def reset(self, slots: Slots) -> None:
        """Nothing is known of these any more."""
        self._speech.reset(slots)
        self._noise.reset(slots)
        self._recent[slots] = np.inf
        self._next[slots] = 0

    def follow(self, slots: Slots, x: Samples, prob: Samples) -> Decibels:
        """``x`` float32 [n, whole blocks], ``prob`` [n, blocks] -> dB [n, blocks].

        UNKNOWN where nobody speaks, and until half a second of speech was heard.
        """
        power = np.square(x.reshape(*prob.shape, FRAME.block)).mean(axis=2)
        told = np.full(prob.shape, UNKNOWN)
        for block in range(prob.shape[1]):
            self._note(slots, power[:, block], prob[:, block])
            if (speaks := prob[:, block] >= NOISE_PROB).any():
                told[speaks, block] = self._ratio(slots[speaks])
        return told

    def _note(self, slots: Slots, power: Samples, prob: Samples) -> None:
        self._recent[slots, self._next[slots]] = power
        self._next[slots] = (self._next[slots] + 1) % LEAST_OF
        for mean, heard in ((self._speech, prob >= SPEECH_PROB), (self._noise, prob < NOISE_PROB)):
            if heard.any():
                mean.add(slots[heard], power[heard])

    def _ratio(self, slots: Slots) -> Decibels:
        noise = np.maximum(self._noise.value[slots], self._recent[slots].min(axis=1))
        ratio = 10 * np.log10(np.maximum(self._speech.value[slots], _FLOOR) / np.maximum(noise, _FLOOR))
        return np.where(self._speech.count[slots] >= KNOWN_AFTER, ratio, UNKNOWN).astype(np.float32)


class _Mean:
    """Of all values until there are ``over``, then with a memory of that many."""

    def __init__(self, slots: int, over: int) -> None:
        self._over = over
        self.value, self.count = np.zeros(slots), np.zeros(slots, np.int64)

    def reset(self, slots: Slots) -> None:
        self.value[slots] = 0
        self.count[slots] = 0

    def add(self, slots: Slots, values: Samples) -> None:
        self.count[slots] = np.minimum(self.count[slots] + 1, self._over)
        self.value[slots] += (values - self.value[slots]) / self.count[slots]
