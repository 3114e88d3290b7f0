"""Which bins are direct sound: those that rise out of what the room still gives back.

A sound comes straight first, from walls later. Listeners go by its onset, too (the precedence effect;
Wallach, Newman & Rosenzweig 1949). For each bin the level is followed that reverberation of the loudest
before can still have; a bin counts as far as it exceeds that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.array.stft import BINS, Spectra
from cosyd.spec import FRAME

ROOM_S = 0.5  # reverberation time that is expected; in a drier room onsets are clearer anyway
CAUTION = 5.0  # power of the room's answer counts so much: direct sound below it is not told from it
_HOP_DECAY = np.float32(10 ** (-6 * FRAME.hop / FRAME.rate_hz / ROOM_S))  # of power
_NOTHING = np.float32(1e-20)


class Onsets:
    """One stream."""

    def __init__(self) -> None:
        self._room = np.zeros(BINS, np.float32)

    def reset(self) -> None:
        """No room rings."""
        self._room[:] = 0

    def fade(self, hops: int) -> None:
        """So many hops go by in which nobody speaks."""
        self._room *= _HOP_DECAY**hops

    def __call__(self, spectra: Spectra) -> NDArray[np.float32]:
        """[hops, microphones, BINS] -> [hops, BINS]: share that is direct sound, 0..1."""
        power: NDArray[np.float32] = (np.square(spectra.real) + np.square(spectra.imag)).mean(axis=1)
        shares = np.empty_like(power)
        for hop, now in enumerate(power):
            self._room *= _HOP_DECAY
            shares[hop] = now / (now + np.float32(CAUTION) * self._room + _NOTHING)
            np.maximum(self._room, now, out=self._room)
        return shares
