"""The array kernels' references: steered power is what its definition says, beams are the CPU's."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.array import beams
from cosyd.array.geometry import Geometry, unit
from cosyd.array.grid import make_grid
from cosyd.array.noise import MEMORY_S, TRUST_S, NoiseField
from cosyd.array.stft import BINS, FREQUENCIES_HZ
from cosyd.array.whitened import BAND_HZ
from cosyd.config.schema import ArrayConfig
from cosyd.gpu.reference import arrays
from cosyd.spec import FRAME

GEOMETRY = Geometry.of(ArrayConfig(geometry="uma-8"))
HOP_S = FRAME.hop / FRAME.rate_hz


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def spectra_of(rng: np.random.Generator, hops: int) -> np.ndarray:
    shape = (hops, GEOMETRY.microphones, BINS)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def over_the_pairs(
    spectra: np.ndarray, share: np.ndarray, steering: np.ndarray, coherence: np.ndarray | None
) -> np.ndarray:
    """Steered power by its definition (DiBiase 2000): the mean over the pairs of Re(cross-phase · steering),
    each bin by its weight, less what the noise adds: [mics, used], [used], [directions, used, mics]."""
    phases = spectra / np.abs(spectra)
    weights = share.astype(np.float64) ** 2
    total = np.zeros(len(steering))
    for i, j in GEOMETRY.pairs:
        cross = phases[i] * phases[j].conj()
        if coherence is not None:
            cross = cross - (1 - weights) * coherence[:, i, j]
        total += (steering[:, :, i].conj() * steering[:, :, j] * cross).real @ weights
    return total / len(GEOMETRY.pairs)


@pytest.mark.parametrize("with_noise", [False, True])
def test_steered_power(rng: np.random.Generator, with_noise: bool) -> None:
    grid = make_grid(GEOMETRY, space=False)
    low, high = BAND_HZ
    used = np.flatnonzero((low <= FREQUENCIES_HZ) & (high >= FREQUENCIES_HZ))
    steering = GEOMETRY.steering(grid.directions, FREQUENCIES_HZ[used])
    table = steering.transpose(1, 2, 0)
    coherence = beams.sector(GEOMETRY, 20.0, 60.0)[used] if with_noise else None
    noise = arrays.noise_towards(coherence, table) if coherence is not None else None
    spectra = spectra_of(rng, 1)[0][:, used].astype(np.complex128)
    share = rng.uniform(0, 1, len(used))
    power, weight = arrays.srp_phat(spectra, share, table, noise)
    assert power == pytest.approx(over_the_pairs(spectra, share, steering, coherence), abs=1e-9)
    assert weight == pytest.approx(np.square(share).sum())


def test_noise_and_weights(rng: np.random.Generator) -> None:
    assumed = beams.diffuse(GEOMETRY)
    field = NoiseField(assumed)
    spectra = spectra_of(rng, 12)
    share = rng.uniform(0, 1, (12, BINS)).astype(np.float32)
    keep = float(np.exp(-HOP_S / MEMORY_S))
    noise = np.zeros((BINS, GEOMETRY.microphones, GEOMETRY.microphones), np.complex128)
    heard = np.zeros(BINS)
    for hop in range(12):
        noise, heard = arrays.beam_noise(noise, heard, spectra[hop], share[hop], keep)
    for block in range(0, 12, 4):
        field.learn(spectra[block : block + 4], 1 - share[block : block + 4])
    d = beams.steering(GEOMETRY, unit(70.0))
    expected = beams.mvdr(d, field.covariance(), 0.003)
    weights = arrays.beam_weights(noise, heard, assumed, d, TRUST_S / HOP_S, 0.003)
    assert weights == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert beams.response(weights, d) == pytest.approx(np.ones(BINS))
    y = arrays.beam_apply(spectra[0], np.zeros_like(weights), weights, 0.5)
    assert y == pytest.approx(0.5 * np.einsum("fm,mf->f", weights.conj(), spectra[0]))
