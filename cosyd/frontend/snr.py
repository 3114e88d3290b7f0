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
Powers = NDArray[np.float64]
Places = NDArray[np.intp]
Flags = NDArray[np.bool_]

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
        speaks = prob >= NOISE_PROB
        noise, _ = self._noise.add(slots, power, ~speaks)
        place = (self._next[slots, None] + np.arange(prob.shape[1])) % LEAST_OF
        self._next[slots] = (place[:, -1] + 1) % LEAST_OF
        if not speaks.any():  # most blocks of most streams: the rest is for what is told
            self._recent[slots[:, None], place] = power
            return np.full(prob.shape, UNKNOWN)
        noise = np.maximum(noise, self._least(slots, place, power))
        speech, count = self._speech.add(slots, power, prob >= SPEECH_PROB)
        ratio = 10 * np.log10(np.maximum(speech, _FLOOR) / np.maximum(noise, _FLOOR))
        return np.where(speaks & (count >= KNOWN_AFTER), ratio, UNKNOWN).astype(np.float32)

    def _least(self, slots: Slots, place: Places, power: Samples) -> Powers:
        """The least power of the newest LEAST_OF blocks, as of each block: [n, blocks]."""
        least = np.empty(power.shape)
        for block in range(power.shape[1]):
            self._recent[slots, place[:, block]] = power[:, block]
            least[:, block] = self._recent[slots].min(axis=1)
        return least


class _Mean:
    """Of all values until there are ``over``, then with a memory of that many."""

    def __init__(self, slots: int, over: int) -> None:
        self._over = over
        self._value, self._count = np.zeros(slots), np.zeros(slots, np.int64)

    def reset(self, slots: Slots) -> None:
        self._value[slots] = 0
        self._count[slots] = 0

    def add(self, slots: Slots, values: Samples, heard: Flags) -> tuple[Powers, Places]:
        """Of ``values`` [n, blocks] those that were ``heard``. The mean as of each block, and of how many."""
        count = np.minimum(self._count[slots, None] + heard.cumsum(axis=1), self._over)
        self._count[slots] = count[:, -1]
        share = np.maximum(count, 1)
        value = self._value[slots]
        every = np.empty(values.shape)
        for block in range(values.shape[1]):
            moved = value + (values[:, block] - value) / share[:, block]
            every[:, block] = value = np.where(heard[:, block], moved, value)
        self._value[slots] = value
        return every, count
