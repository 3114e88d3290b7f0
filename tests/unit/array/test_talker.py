"""What was heard of a voice tells how it reaches the microphones, better than its direction does."""

from __future__ import annotations

import numpy as np
import pytest
from array_waves import geometry, plane_wave, white
from numpy.typing import NDArray

from cosyd.array import beams
from cosyd.array.geometry import unit
from cosyd.array.stft import BINS, FREQUENCIES_HZ, Analysis, Spectra
from cosyd.array.talker import Talker, referred

ARRAY = geometry("square-4")
LOADING = 10**-2.5
HEARD = (FREQUENCIES_HZ > 300) & (FREQUENCIES_HZ < 7_500)


def from_two_sides(seed: int) -> tuple[Spectra, NDArray[np.complex128]]:
    """A voice from 40 degrees whose reflection comes from -60 at once; its true transfer function."""
    signal = white(80, seed)
    x = plane_wave(ARRAY, signal, 40.0) + np.float32(0.6) * plane_wave(ARRAY, signal, -60.0)
    d = beams.steering(ARRAY, unit(40.0)) + 0.6 * beams.steering(ARRAY, unit(-60.0))
    return Analysis(4)(x), referred(d)


def learned(talker: Talker, spectra: Spectra, noise: beams.Matrix) -> beams.Vector:
    """What it has come to after all of it, block by block."""
    inverse = np.linalg.inv(beams.loaded(noise, LOADING))
    d = referred(beams.steering(ARRAY, unit(40.0)))
    for hop in range(0, len(spectra), 4):
        talker.learn(spectra[hop : hop + 4], np.ones((4, BINS), np.float32))
        found = talker.transfer(d, inverse)
    return found


def misfit(found: beams.Vector, true: beams.Vector) -> float:
    """What of the true one is not along the found one, dB, the median over bins."""
    along = np.abs(np.einsum("fm,fm->f", found.conj(), true)) ** 2
    along /= np.square(np.abs(found)).sum(axis=1) * np.square(np.abs(true)).sum(axis=1)
    return float(np.median(10 * np.log10(np.maximum(1 - along[HEARD], 1e-12))))


def test_until_something_was_heard_it_is_the_plane_wave() -> None:
    d = referred(beams.steering(ARRAY, unit(40.0)))
    found = Talker(4).transfer(d, np.linalg.inv(beams.loaded(beams.diffuse(ARRAY), LOADING)))
    assert np.abs(found - d).max() < 1e-6


def test_a_reflection_from_elsewhere_is_a_part_of_it() -> None:
    spectra, true = from_two_sides(1)
    plane = referred(beams.steering(ARRAY, unit(40.0)))
    found = learned(Talker(4), spectra, beams.diffuse(ARRAY))
    assert misfit(found, true) < misfit(plane, true) - 10


def test_noise_in_what_was_heard_does_not_move_it() -> None:
    """As loud as the voice, and known: the principal direction of S N^-1 stays, that of S alone does not."""
    spectra, true = from_two_sides(2)
    d = beams.steering(ARRAY, unit(160.0))
    noise = d[:, :, None] * d[:, None].conj()
    both = spectra + Analysis(4)(plane_wave(ARRAY, white(80, 3), 160.0))
    aware = learned(Talker(4), both, noise)
    unaware = learned(Talker(4), both, np.tile(np.eye(4, dtype=np.complex128), (BINS, 1, 1)))
    assert misfit(aware, true) < misfit(unaware, true) - 5


def test_somebody_else_begins_with_the_plane_wave_again() -> None:
    spectra, _ = from_two_sides(4)
    talker = Talker(4)
    learned(talker, spectra, beams.diffuse(ARRAY))
    talker.reset()
    d = referred(beams.steering(ARRAY, unit(-100.0)))
    found = talker.transfer(d, np.linalg.inv(beams.loaded(beams.diffuse(ARRAY), LOADING)))
    assert np.abs(found - d).max() < 1e-6


def test_a_transfer_function_refers_to_the_first_microphone() -> None:
    d = referred(3j * beams.steering(ARRAY, unit(70.0)))
    assert np.abs(np.angle(d[:, 0])).max() < 1e-9
    assert np.square(np.abs(d)).mean(axis=1) == pytest.approx(np.ones(BINS))
