"""Steered power of the whitened signal: what its definition says, and blind to the noise it was told of."""

from __future__ import annotations

import numpy as np
import pytest
from array_waves import geometry, plane_wave, white
from numpy.typing import NDArray

from cosyd.array import beams
from cosyd.array.geometry import Geometry, angles, between, unit, wrap
from cosyd.array.grid import make_grid
from cosyd.array.locate import Locator
from cosyd.array.stft import BINS, FREQUENCIES_HZ, Analysis, Spectra
from cosyd.array.whitened import BAND_HZ, LOADING, SALIENCE, Whitened

ALL = np.ones((1, BINS), np.float32)


def spectra_of(array: Geometry, azimuth: float, elevation: float = 0.0, seed: int = 0) -> Spectra:
    return Analysis(array.microphones)(plane_wave(array, white(10, seed), azimuth, elevation))[4:]


def power_of(whitened: Whitened, spectra: Spectra) -> NDArray[np.float32]:
    sums, weights = whitened.sums(spectra, None, np.repeat(ALL, len(spectra), axis=0))
    return whitened.power(sums.sum(axis=0) / weights.sum())


def coherent(array: Geometry, azimuth: float) -> NDArray[np.complex128]:
    """Of a noise from one place."""
    d = beams.steering(array, unit(azimuth))
    return d[:, :, None] * d[:, None].conj()


@pytest.mark.parametrize("name", ["square-4", "uma-8"])
def test_power_is_what_its_definition_says(name: str) -> None:
    """|d' x'|² over |d'|² |x'|², in float64, with another root of the covariance."""
    array = geometry(name)
    grid = make_grid(array, space=False)
    noise = beams.diffuse(array) + 2 * coherent(array, 100.0)
    spectra = spectra_of(array, 33.0, seed=1) + spectra_of(array, 100.0, seed=2)
    whitened = Whitened(array, grid)
    whitened.adapt(noise)
    used = (BAND_HZ[0] <= FREQUENCIES_HZ) & (BAND_HZ[1] >= FREQUENCIES_HZ)
    values, vectors = np.linalg.eigh(beams.loaded(noise[used], LOADING))
    root = vectors @ (values[:, :, None] ** -0.5 * vectors.conj().transpose(0, 2, 1))
    d = np.einsum("fij,nfj->nfi", root, array.steering(grid.directions, FREQUENCIES_HZ[used]))
    x = np.einsum("fij,hjf->hfi", root, spectra[:, :, used])
    d /= np.linalg.norm(d, axis=2, keepdims=True)
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    alike = np.square(np.abs(np.einsum("nfi,hfi->nhf", d.conj(), x))).mean(axis=(1, 2))
    size = array.microphones
    expected = SALIENCE * (size * alike - 1) / (size - 1)
    assert power_of(whitened, spectra) == pytest.approx(expected, abs=1e-4)
    assert whitened.average(spectra) == pytest.approx(expected, abs=1e-4)


def test_the_noise_alone_comes_from_nowhere() -> None:
    """Told of it, the power is the same in all directions; not told, it is the noise that is found."""
    array = geometry("square-4")
    grid = make_grid(array, space=False)
    noise = beams.diffuse(array) + 2 * coherent(array, 100.0)
    rng = np.random.default_rng(5)
    z = rng.standard_normal((200, BINS, 4, 2)) @ (1, 1j)
    root = np.linalg.cholesky(beams.loaded(noise, 1e-6))
    spectra = np.einsum("fij,hfj->hif", root, z).astype(np.complex64)
    told, untold = Whitened(array, grid), Whitened(array, grid)
    told.adapt(noise)
    assert azimuth_of(array, power_of(untold, spectra)) == pytest.approx(100.0, abs=3)
    assert np.ptp(power_of(told, spectra)) < 0.25 * np.ptp(power_of(untold, spectra))


def azimuth_of(array: Geometry, power: NDArray[np.float32]) -> float:
    return angles(Locator(array, space=False, talkers=1).peaks(power)[0].direction)[0]


@pytest.mark.parametrize("louder_db", [0.0, 6.0])
def test_a_voice_beside_a_louder_noise_is_found(louder_db: float) -> None:
    array = geometry("square-4")
    locator = Locator(array, space=False, talkers=1)
    noise = np.float32(10 ** (louder_db / 20)) * spectra_of(array, 100.0, seed=2)
    both = spectra_of(array, -20.0, seed=3) + noise
    whitened = Whitened(array, locator.grid)
    whitened.adapt(coherent(array, 100.0))
    found = locator.peaks(power_of(whitened, both))[0].direction
    assert abs(wrap(angles(found)[0] + 20.0)) < 3


@pytest.mark.parametrize(("azimuth", "elevation"), [(30.0, 25.0), (-100.0, 40.0)])
def test_in_space_too(azimuth: float, elevation: float) -> None:
    array = geometry("uma-8")
    locator = Locator(array, space=True, talkers=1)
    whitened = Whitened(array, locator.grid)
    whitened.adapt(beams.diffuse(array))
    power = power_of(whitened, spectra_of(array, azimuth, elevation))
    assert between(locator.peaks(power)[0].direction, unit(azimuth, elevation)) < 2.0


def test_a_bin_without_sound_does_not_count() -> None:
    array = geometry("square-4")
    whitened = Whitened(array, make_grid(array, space=False))
    sums, weights = whitened.sums(np.zeros((2, 4, BINS), np.complex64), None, np.zeros((2, BINS), np.float32))
    assert np.all(sums == 0) and np.all(weights == 0)
