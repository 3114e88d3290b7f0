"""A first echo path, by least squares of what was just heard on what was played: where the filter begins.

The normal equations of a short path (Wiener, with the correlations of a stretch in place of expectations);
a little noise is added, so that they can be solved where little was played.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float32]

TAPS = 512  # of all references together: 32 ms, the direct path and the first walls
_LOADING = 1e-3  # of the reference's power


def first_path(heard: Real, played: Real) -> Real:
    """heard [mics, n], played [references, n] of the same time -> [mics, references, taps]."""
    references, count = played.shape
    taps = TAPS // references
    size = 1 << (count + taps - 1).bit_length()
    x, y = np.fft.rfft(played, size), np.fft.rfft(heard, size)
    own = np.fft.irfft(x[:, None] * x[None].conj(), size)  # [i, j, lag]: sum of i(n + lag) j(n)
    lags = np.arange(taps)[:, None] - np.arange(taps)[None, :]
    blocks = own[:, :, -lags % size]  # of i at n - row, j at n - column
    matrix = blocks.transpose(0, 2, 1, 3).reshape(references * taps, references * taps)
    matrix += _LOADING * np.trace(matrix) / len(matrix) * np.eye(len(matrix)) + 1e-12 * np.eye(len(matrix))
    cross = np.fft.irfft(y[:, None] * x[None].conj(), size)[..., :taps]
    solved = np.linalg.solve(matrix, cross.reshape(len(heard), -1).T)
    return np.asarray(solved.T.reshape(len(heard), references, taps), np.float32)
