"""Steered response power with phase transform (DiBiase 2000): how much comes from each direction.

What kernels/srp_phat.cu computes, too. Streams look through the noise around first (``whitened``).
Of each pair of microphones the generalised cross-correlation with phase transform (Knapp & Carter 1976) is
computed at all lags that a direction can cause, on a grid of an eighth of a sample; the power of a direction
is the mean of the pairs' correlations at its lags, interpolated. Which lags those are is worked out once, as
a matrix: one product makes powers of correlations. (Picking them one by one takes NumPy much longer.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.array.geometry import Geometry
from cosyd.array.grid import Grid
from cosyd.array.stft import FREQUENCIES_HZ, Spectra
from cosyd.spec import FRAME

BAND_HZ = (500.0, 6_500.0)  # below, a small array sees no difference; above, speech has little
FINE = 8  # lags a sample: between them the correlation is interpolated, within 2 % of the highest frequency's
_NOTHING = np.float32(1e-9)  # -180 dB: a bin this weak has no phase

Power = NDArray[np.float32]


class Srp:
    """For one array and grid; holds tables only, no state."""

    def __init__(self, geometry: Geometry, grid: Grid, band_hz: tuple[float, float] = BAND_HZ) -> None:
        self._bins = np.flatnonzero((band_hz[0] <= FREQUENCIES_HZ) & (band_hz[1] >= FREQUENCIES_HZ))
        self.bins = len(self._bins)  # that are used
        self._first, self._second = geometry.pairs.T
        leads = geometry.leads(grid.directions)
        lags = (leads[:, self._first] - leads[:, self._second]) * FRAME.rate_hz * FINE  # [directions, pairs]
        reach = int(np.ceil(np.abs(lags).max())) + 1
        width = 2 * reach + 1
        self._steer = _interpolation(lags + reach, width)
        turns = FREQUENCIES_HZ[self._bins, None] * (np.arange(-reach, reach + 1) / (FINE * FRAME.rate_hz))
        # The real part of a correlation: the imaginary half of the basis has the sign of a conjugate.
        self._basis = np.concatenate((np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)), dtype=np.float32)

    def correlations(
        self,
        spectra: Spectra,
        share: NDArray[np.float32] | None = None,
        noise: NDArray[np.complexfloating[Any, Any]] | None = None,
    ) -> tuple[Power, NDArray[np.float32]]:
        """[hops, microphones, BINS] -> [hops, pairs, lags], and the weights [hops] that they are sums of.

        ``share`` [hops, BINS]: which part of each bin is speech, 0..1; all without. A bin counts by its
        square: one that is half noise has hardly a direction. ``noise`` [BINS, microphones, microphones]:
        coherence of the rest. Phases of a mixture are, on average, share² of the voice's and 1 - share² of
        the noise's; the latter is taken off, else a noise from one place would be found where it is.
        """
        used = spectra[:, :, self._bins]
        phases = used / np.maximum(np.abs(used), _NOTHING)
        cross = phases[:, self._first] * phases[:, self._second].conj()
        if share is None:
            weight = np.ones((len(spectra), len(self._bins)), np.float32)
        else:
            weight = np.square(share[:, self._bins])
        if noise is not None:
            pairs = noise[self._bins][:, self._first, self._second].T.astype(np.complex64)
            cross -= (1 - weight)[:, None] * pairs
        cross *= weight[:, None]
        parts = np.concatenate((cross.real, cross.imag), axis=2)
        return np.asarray(parts @ self._basis), np.asarray(weight.sum(axis=1))

    def __call__(self, spectra: Spectra, share: NDArray[np.float32] | None = None) -> Power:
        """[hops, microphones, BINS] -> [hops, directions]: mean over the pairs and bins, at most 1."""
        sums, weights = self.correlations(spectra, share)
        means = sums / np.maximum(weights, _NOTHING)[:, None, None]
        return self.power(means.astype(np.float32, copy=False))

    def average(self, spectra: Spectra) -> Power:
        """[hops, microphones, BINS] -> [directions]: the mean over all hops, for the price of one."""
        used = spectra[:, :, self._bins]
        phases = (used / np.maximum(np.abs(used), _NOTHING)).transpose(2, 1, 0)  # [bins, microphones, hops]
        cross = phases @ phases.conj().transpose(0, 2, 1) / np.float32(phases.shape[0] * phases.shape[2])
        pairs = cross[:, self._first, self._second].T
        parts = np.concatenate((pairs.real, pairs.imag), axis=1)
        correlations = (parts @ self._basis).astype(np.float32, copy=False)
        return np.asarray(self.power(correlations[None])[0])

    def power(self, correlations: Power) -> Power:
        """[hops, pairs, lags] -> [hops, directions]. Linear: smoothed correlations give smoothed power."""
        return np.asarray(correlations.reshape(len(correlations), -1) @ self._steer)


def _interpolation(lags: NDArray[np.float64], width: int) -> NDArray[np.float32]:
    """[directions, pairs] places among ``width`` lags -> [pairs · width, directions], linear between two."""
    directions, pairs = lags.shape
    below = np.floor(lags).astype(np.intp)
    share = lags - below
    matrix = np.zeros((pairs, width, directions), np.float32)
    pair, direction = np.arange(pairs)[:, None], np.arange(directions)[None, :]
    matrix[pair, below.T, direction] = (1 - share.T) / pairs
    matrix[pair, below.T + 1, direction] += share.T / pairs
    return matrix.reshape(pairs * width, directions)
