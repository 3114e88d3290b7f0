"""The array kernels (``srp_phat.cu``, ``beamform.cu``) in float64, written as their headers say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Complex = NDArray[np.complexfloating[Any, Any]]
Real = NDArray[np.floating[Any]]


def srp_phat(spectra: Complex, share: Real, table: Complex, noise: Real | None = None) -> tuple[Real, float]:
    """One hop: spectra [mics, used], share [used], table [used, mics, directions], noise [used, directions].

    Power [directions] before the division by its weight, and the weight.
    """
    size = np.abs(spectra).astype(np.float64)
    phases = np.where(size < 1e-9, 0, spectra / np.maximum(size, 1e-30)).astype(np.complex128)
    weights = np.square(share, dtype=np.float64)
    steered = np.abs(np.einsum("fmu,mf->fu", table.conj(), phases)) ** 2
    value = steered - np.square(np.abs(phases)).sum(axis=0)[:, None]
    if noise is not None:
        value = value - (1 - weights)[:, None] * noise
    mics = len(spectra)
    return np.asarray((weights @ value) / 2 / (mics * (mics - 1) / 2)), float(weights.sum())


def noise_towards(coherence: Complex, table: Complex) -> Real:
    """d^H G d - M: coherence [used, mics, mics], table [used, mics, directions] -> [used, directions]."""
    power = np.einsum("fmu,fmn,fnu->fu", table.conj(), coherence, table).real
    return np.asarray(power - np.einsum("fmm->f", coherence).real[:, None])


def beam_noise(
    noise: Complex, heard: Real, spectra: Complex, share: Real, keep: float
) -> tuple[Complex, Real]:
    """[bins, mics, mics], [bins]; spectra [mics, bins], share [bins] -> the same one hop later."""
    product = np.einsum("if,jf->fij", spectra.astype(np.complex128), spectra.conj())
    return keep * noise + (1 - share)[:, None, None] * product, keep * heard + (1 - share)


def beam_weights(
    noise: Complex, heard: Real, assumed: Complex, steering: Complex, trust: float, loading: float
) -> Complex:
    """[bins, mics, mics], [bins], [bins, mics, mics], [bins, mics] -> [bins, mics]."""
    mics = noise.shape[1]
    level = np.trace(noise, axis1=1, axis2=2).real / mics
    share = np.where(level > 1e-20, heard / (heard + trust), 0.0)[:, None, None]
    learned = noise / np.maximum(level, 1e-20)[:, None, None]
    matrix = share * learned + (1 - share) * assumed + loading * np.eye(mics)
    solved = np.linalg.solve(matrix.astype(np.complex128), steering[:, :, None])[:, :, 0]
    return np.asarray(solved / np.einsum("fm,fm->f", steering.conj(), solved).real[:, None])


def beam_apply(spectra: Complex, now: Complex, following: Complex, ramp: float) -> Complex:
    """spectra [mics, bins], weights [bins, mics] -> [bins]."""
    weights = now + ramp * (following - now)
    return np.asarray(np.einsum("fm,mf->f", weights.conj(), spectra))
