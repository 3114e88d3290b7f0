"""Weights of beams, from directions and from the noise around.

A beam's output is w^H x for spectra x at the microphones. All beams here are distortionless: w^H d = 1 for
the steering vector d of the direction looked at, to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.array.geometry import Geometry, Vectors, unit
from cosyd.array.stft import FREQUENCIES_HZ
from cosyd.config.arrays import SPEED_OF_SOUND

Weights = NDArray[np.complex64]  # [bins, microphones]
Vector = NDArray[np.complexfloating[Any, Any]]  # [bins, microphones]
Matrix = NDArray[np.complexfloating[Any, Any]]  # [bins, microphones, microphones]

IGNORED = 10.0  # how much louder a sector to be ignored is taken to be than all around
_SECTOR_STEP_DEG = 5.0


def diffuse(geometry: Geometry) -> Matrix:
    """Coherence of a field in which equally much comes from everywhere: sinc(2 f distance / c)."""
    points = geometry.centred
    distance: NDArray[np.float64] = np.linalg.norm(points[:, None] - points[None], axis=2)
    coherence = np.sinc(2 * FREQUENCIES_HZ[:, None, None] * distance / SPEED_OF_SOUND)
    return np.asarray(coherence, np.complex128)


def sector(geometry: Geometry, from_deg: float, to_deg: float) -> Matrix:
    """Coherence of a field that comes from a sector of the plane, counter-clockwise."""
    width = (to_deg - from_deg) % 360.0 or 360.0
    count = max(2, int(width / _SECTOR_STEP_DEG) + 1)
    directions = unit(from_deg + np.linspace(0.0, width, count))
    d = geometry.steering(directions, FREQUENCIES_HZ)
    return np.asarray(np.einsum("nfi,nfj->fij", d, d.conj()) / count)


def steering(geometry: Geometry, direction: Vectors) -> Vector:
    """d for one unit vector [3]."""
    return np.asarray(geometry.steering(direction[None], FREQUENCIES_HZ)[0])


def delay_and_sum(d: Vector) -> Vector:
    """Every microphone counts the same: the best against noise of the microphones themselves."""
    return np.asarray(d / d.shape[1])


def loaded(noise: Matrix, loading: float) -> Matrix:
    """Scaled to a mean diagonal of 1 a bin, and ``loading`` added to it: noise of the microphones.

    It bounds how much a sharp beam may amplify that noise, and how much an error of the geometry matters.
    """
    size = noise.shape[1]
    level = np.trace(noise, axis1=1, axis2=2).real[:, None, None] / size
    return np.asarray(noise / np.maximum(level, 1e-30) + loading * np.eye(size))


def mvdr(d: Vector, noise: Matrix, loading: float) -> Vector:
    """R^-1 d / (d^H R^-1 d): least noise of what is distortionless (Capon 1969).

    With the coherence of a diffuse field as ``noise`` this is the superdirective beam (Cox et al. 1987).
    """
    return distortionless(d, np.linalg.inv(loaded(noise, loading)))


def distortionless(d: Vector, inverse: Matrix) -> Vector:
    """The same, from the inverse of the loaded covariance."""
    solved = (inverse @ d[:, :, None])[:, :, 0]
    return np.asarray(solved / np.einsum("fm,fm->f", d.conj(), solved)[:, None].conj())


def anywhere(speech: Matrix, noise: Matrix) -> Vector:
    """(S + R)^-1 S e: of a voice whose direction nobody knows yet what the first microphone hears of it.

    The multichannel Wiener filter (Doclo & Moonen 2002) for ``speech`` that comes from everywhere alike,
    scaled so that on average over directions it passes as it is.
    """
    weights = np.linalg.solve(speech + noise, speech[:, :, :1])[:, :, 0]
    passed = np.einsum("fm,fm->f", weights.conj(), speech[:, :, 0])
    return np.asarray(weights / passed[:, None].conj())


def response(weights: Vector, d: Vector) -> Vector:
    """w^H d: [..., bins] for d [..., bins, microphones]."""
    return np.asarray(np.einsum("fm,...fm->...f", weights.conj(), d))


def first_microphone(microphones: int) -> Weights:
    """No beam at all."""
    weights = np.zeros((len(FREQUENCIES_HZ), microphones), np.complex64)
    weights[:, 0] = 1
    return weights
