"""The array kernels' references say what the CPU's implementation does."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.array import beams
from cosyd.array.geometry import Geometry, unit
from cosyd.array.grid import make_grid
from cosyd.array.noise import MEMORY_S, TRUST_S, NoiseField
from cosyd.array.srp import BAND_HZ, Srp
from cosyd.array.stft import BINS, FREQUENCIES_HZ
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


@pytest.mark.parametrize("with_noise", [False, True])
def test_steered_power(rng: np.random.Generator, with_noise: bool) -> None:
    grid = make_grid(GEOMETRY, space=False)
    low, high = BAND_HZ
    used = np.flatnonzero((low <= FREQUENCIES_HZ) & (high >= FREQUENCIES_HZ))
    table = GEOMETRY.steering(grid.directions, FREQUENCIES_HZ[used]).transpose(1, 2, 0)
    coherence = beams.sector(GEOMETRY, 20.0, 60.0) if with_noise else None
    spectra = spectra_of(rng, 3)
    share = rng.uniform(0, 1, (3, BINS)).astype(np.float32)
    srp = Srp(GEOMETRY, grid)
    sums, weights = srp.correlations(spectra, share, coherence)
    power = srp.power(sums)
    noise = arrays.noise_towards(coherence[used], table) if coherence is not None else None
    for hop in range(3):
        expected, weight = arrays.srp_phat(spectra[hop][:, used], share[hop, used], table, noise)
        assert weights[hop] == pytest.approx(weight, rel=1e-5)
        assert power[hop] / weight == pytest.approx(expected / weight, abs=0.01)  # lags are interpolated


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
