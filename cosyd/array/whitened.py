"""Steered power of what is left of the microphones' signals once the noise around comes from nowhere.

A noise from one place has a direction as a voice has, and steered power finds whichever is louder. With R the
covariance of the noise and L L^H = R its factors, L^-1 x is the signal in which the noise is alike in all
directions, and L^-1 d is what a plane wave d becomes in it. The power of a direction is the share of the
whitened signal that lies along that: |d' x'|² / |d'|²|x'|², the mean over bins. As with the phase transform
(DiBiase 2000) no bin counts for its level, so a noise that swells is not found either.

x' x'^H is taken apart into real numbers, those of the whitened steering vectors into a table: one product
makes powers of what was heard.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.array.beams import Matrix, loaded
from cosyd.array.geometry import Geometry
from cosyd.array.grid import Grid
from cosyd.array.stft import FREQUENCIES_HZ, Spectra

LOADING = (
    0.1  # of the noise's mean level: what was learned of it is not exact, and voices are not plane waves
)
# A voice in a room is to be as salient as by its phases alone, which the thresholds of voices are made for:
# measured on training speech. Noise by chance stays as it is, about 0.
SALIENCE = 1.35
# Numbers in the table that each look goes through, 7 MB: 8 microphones have 3 MB in the plane. More
# directions or microphones have it with every second, third or fourth bin: neighbours have much in common.
TABLE = 1_800_000
SPARSEST = 4
BAND_HZ = (500.0, 6_500.0)  # below, a small array sees no difference; above, speech has little
_NOTHING = np.float32(1e-9)  # -180 dB: a bin this weak has no direction

Power = NDArray[np.float32]


class Whitened:
    """For one array and grid. Nothing is known of the noise until ``adapt`` tells."""

    def __init__(self, geometry: Geometry, grid: Grid) -> None:
        used = np.flatnonzero((BAND_HZ[0] <= FREQUENCIES_HZ) & (BAND_HZ[1] >= FREQUENCIES_HZ))
        every = min(SPARSEST, 1 + len(used) * len(grid) * geometry.microphones**2 // TABLE)
        used = used[::every]
        self._used = slice(int(used[0]), int(used[-1]) + 1, every)
        self.bins = len(used)  # that are used
        self._mics = geometry.microphones
        self._first, self._second = geometry.pairs.T
        steering = geometry.steering(grid.directions, FREQUENCIES_HZ[used])  # [directions, bins, microphones]
        self._steering = steering.transpose(1, 2, 0).astype(np.complex64)
        self.adapt(np.tile(np.eye(self._mics, dtype=np.complex64), (len(FREQUENCIES_HZ), 1, 1)))

    def adapt(self, noise: Matrix) -> None:
        """To this covariance [BINS, microphones, microphones] of the noise."""
        factor = np.linalg.cholesky(loaded(noise[self._used], LOADING).astype(np.complex128))
        self._white = np.linalg.inv(factor).astype(np.complex64)
        towards = (self._white @ self._steering).transpose(1, 2, 0)  # [microphones, directions, bins]
        self._table = self._parts(np.ascontiguousarray(towards))

    def _parts(self, x: NDArray[np.complex64]) -> NDArray[np.float32]:
        """[microphones, n, bins] -> [n, microphones² · bins]: x x^H of each bin over its trace, in reals.

        The sum of products of two such rows is, for each bin, |x^H y|² of unit vectors x and y.
        """
        power = np.square(x.real) + np.square(x.imag)
        level = np.maximum(power.sum(axis=0), np.square(_NOTHING))
        cross = x[self._first] * x[self._second].conj()
        cross *= np.float32(np.sqrt(2))  # each stands for itself and its conjugate
        parts = np.concatenate((power, cross.real, cross.imag)) / level
        return np.asarray(parts.transpose(1, 0, 2).reshape(x.shape[1], -1), np.float32)

    def sums(
        self, spectra: Spectra, share: NDArray[np.float32] | None, direct: NDArray[np.float32]
    ) -> tuple[Power, NDArray[np.float32]]:
        """[hops, microphones, BINS] -> what powers are made of [hops, n], the weights [hops] that are in it.

        ``share`` [hops, BINS]: which part of each bin is speech, 0..1; all without. A bin counts by its
        square: one that is half noise has hardly a direction. ``direct`` [hops, BINS]: by how much a bin
        counts beside that.
        """
        weight = direct[:, self._used]
        if share is not None:
            weight = weight * np.square(share[:, self._used])
        white = self._white @ spectra[:, :, self._used].transpose(2, 1, 0)  # [bins, microphones, hops]
        parts = self._parts(np.ascontiguousarray(white.transpose(1, 2, 0)))
        parts = parts.reshape(len(spectra), -1, self.bins) * weight[:, None]
        return parts.reshape(len(spectra), -1), np.asarray(weight.sum(axis=1))

    def average(self, spectra: Spectra) -> Power:
        """[hops, microphones, BINS] -> power [directions], the mean over hops, all bins alike.

        As ``sums`` and ``power`` would give it; the mean of x' x'^H is one matrix product a bin.
        """
        white = self._white @ spectra[:, :, self._used].transpose(2, 1, 0)  # [bins, microphones, hops]
        level = np.sqrt((np.square(white.real) + np.square(white.imag)).sum(axis=1, keepdims=True))
        white *= np.reciprocal(np.maximum(level, _NOTHING))  # six times as fast as complex / real
        mean = white @ white.conj().transpose(0, 2, 1) / np.float32(len(spectra) * self.bins)
        cross = mean[:, self._first, self._second] * np.float32(np.sqrt(2))
        own = np.diagonal(mean, axis1=1, axis2=2).real
        parts = np.concatenate((own, cross.real, cross.imag), axis=1, dtype=np.float32)
        return self.power(parts.T.ravel())

    def power(self, mean: Power) -> Power:
        """[n], a mean of ``sums`` over their weights -> [directions]: 1 is all, about 0 what chance gives."""
        size = np.float32(self._mics)
        alike = self._table @ mean
        return np.asarray(np.float32(SALIENCE) * (size * alike - 1) / (size - 1))
