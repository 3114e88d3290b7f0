"""How the voice that is listened to reaches the microphones: its relative transfer function.

In a room that is not the plane wave of its direction: what comes from walls within the window is in it, too,
and the microphones' own differences. It is the principal direction of the covariance S of speech against that
of the noise, N (covariance whitening; Markovich, Gannot & Cohen 2009): the eigenvector of S N^-1 with the
largest eigenvalue, which noise in S does not move. Until enough was heard, S is the plane wave's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.array.beams import Matrix, Vector
from cosyd.array.noise import Field
from cosyd.array.stft import Spectra

MEMORY_S = 4.0  # of speech: words in which every bin had its turn; who talks may walk
TRUST_S = 0.1  # of speech from which what was heard counts for more than the plane wave
STEPS = 2  # of power iteration a block: it goes on from where it was the block before


class Talker:
    """One voice."""

    def __init__(self, microphones: int) -> None:
        self._field = Field(microphones, MEMORY_S, TRUST_S)
        self._transfer: Vector | None = None

    def reset(self) -> None:
        """Somebody else."""
        self._field.reset()
        self._transfer = None

    def learn(self, spectra: Spectra, share: NDArray[np.float32]) -> None:
        """Spectra [hops, microphones, BINS] while it speaks; ``share`` [hops, BINS] of them is speech."""
        self._field.learn(spectra, np.square(share))

    def transfer(self, d: Vector, inverse: Matrix) -> Vector:
        """[bins, microphones], as ``referred`` scales it.

        ``d``: of the plane wave from its direction; ``inverse``: of the covariance of the noise.
        """
        speech = self._field.coherence(d[:, :, None] * d[:, None].conj())
        step = speech @ inverse
        found = d if self._transfer is None else self._transfer
        for _ in range(STEPS):
            found = (step @ found[:, :, None])[:, :, 0]
            found = found / np.maximum(np.linalg.norm(found, axis=1), 1e-20)[:, None]
        self._transfer = found
        return referred(found)


def referred(d: Vector) -> Vector:
    """The same, with the phase of the first microphone, and on average the level of all."""
    first = d[:, :1]
    turned = d * first.conj() / np.maximum(np.abs(first), 1e-20)
    level = np.sqrt(np.square(np.abs(d)).mean(axis=1))[:, None]
    return np.asarray(turned / np.maximum(level, 1e-20))
