"""The spatial covariance of what is not speech, learned while it is heard, for a beam also beside speech."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.array.beams import Matrix
from cosyd.array.stft import BINS, Spectra
from cosyd.spec import FRAME

MEMORY_S = 1.5  # of noise; what moves or stops is forgotten by then
TRUST_S = 0.25  # of noise heard until what was learned counts as much as the assumption to begin with
_HOP_S = FRAME.hop / FRAME.rate_hz


class Field:
    """Which part of what is heard at the microphones belongs together: [bins, microphones, microphones].

    ``memory_s``: of sound, after which it is forgotten; ``trust_s``: of sound, from which on what was learned
    counts for more than what is assumed.
    """

    def __init__(self, microphones: int, memory_s: float, trust_s: float) -> None:
        self._sum = np.zeros((BINS, microphones, microphones), np.complex64)
        self._heard = np.zeros(BINS, np.float32)  # hops' worth that is in the sum
        self._memory_hops = memory_s / _HOP_S
        self._trust_hops = np.float32(trust_s / _HOP_S)

    def reset(self) -> None:
        self._sum[:] = 0
        self._heard[:] = 0

    def learn(self, spectra: Spectra, share: NDArray[np.float32]) -> None:
        """Spectra [hops, microphones, BINS], and how much of each bin [hops, BINS] belongs to it, 0 to 1."""
        hops = len(spectra)
        keep = np.exp(-1 / self._memory_hops * np.arange(hops, -1, -1)).astype(np.float32)
        weight = share * keep[1:, None]
        by_bin = spectra.transpose(2, 1, 0)  # [bins, microphones, hops]
        weighted = by_bin * weight.T[:, None, :]
        self._sum *= keep[0]
        self._sum += weighted @ by_bin.conj().transpose(0, 2, 1)
        self._heard = self._heard * keep[0] + weight.sum(axis=0)

    def coherence(self, assumed: Matrix) -> Matrix:
        """Scaled to a mean diagonal of 1 a bin; what is ``assumed`` counts until enough was heard."""
        size = self._sum.shape[1]
        level = np.trace(self._sum, axis1=1, axis2=2).real[:, None, None] / size
        learned = self._sum / np.maximum(level, np.float32(1e-20))
        trust = self._heard / (self._heard + self._trust_hops)
        trust = (trust * (level[:, 0, 0] > 1e-20))[:, None, None].astype(np.float32)
        return np.asarray(trust * learned + (1 - trust) * assumed)


class NoiseField(Field):
    """What is not speech. ``assumed``: its coherence to begin with."""

    def __init__(self, assumed: Matrix) -> None:
        super().__init__(assumed.shape[1], MEMORY_S, TRUST_S)
        self._assumed = assumed.astype(np.complex64)

    def covariance(self) -> Matrix:
        """As far as it was heard; mean diagonal 1 a bin."""
        return self.coherence(self._assumed)
