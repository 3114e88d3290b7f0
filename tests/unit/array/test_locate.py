"""Voices are found where plane waves come from."""

from __future__ import annotations

import numpy as np
import pytest
from array_waves import geometry, plane_wave, white

from cosyd.array.geometry import Geometry, angles, between, unit, wrap
from cosyd.array.locate import Locator, loudest
from cosyd.array.stft import FREQUENCIES_HZ, Analysis, Spectra
from cosyd.array.whitened import Whitened


def spectra_of(array: Geometry, azimuth: float, elevation: float = 0.0, seed: int = 0) -> Spectra:
    return Analysis(array.microphones)(plane_wave(array, white(10, seed), azimuth, elevation))


@pytest.mark.parametrize("name", ["square-4", "respeaker-4", "respeaker-6", "uma-8", "xmos-7"])
@pytest.mark.parametrize("azimuth", [0.0, 17.0, 91.3, -120.0, 179.0])
def test_a_plane_wave_s_azimuth_to_half_a_degree(name: str, azimuth: float) -> None:
    array = geometry(name)
    locator = Locator(array, space=False, talkers=2)
    power = locator.average(spectra_of(array, azimuth)[4:])
    found, _ = angles(locator.peaks(power)[0].direction)
    assert abs(wrap(found - azimuth)) < 0.5


def test_a_line_of_microphones_tells_the_angle_to_its_axis() -> None:
    array = geometry("linear-4")
    locator = Locator(array, space=False, talkers=1)
    for azimuth in (20.0, 75.0, 140.0):
        for side in (azimuth, -azimuth):  # front and back look the same
            power = locator.average(spectra_of(array, side)[4:])
            assert angles(locator.peaks(power)[0].direction)[0] == pytest.approx(azimuth, abs=1.0)


@pytest.mark.parametrize(("azimuth", "elevation"), [(30.0, 25.0), (-100.0, 40.0), (160.0, 65.0)])
def test_a_plane_wave_in_space_to_two_degrees(azimuth: float, elevation: float) -> None:
    array = geometry("uma-8")
    locator = Locator(array, space=True, talkers=1)
    power = locator.average(spectra_of(array, azimuth, elevation)[4:])
    assert between(locator.peaks(power)[0].direction, unit(azimuth, elevation)) < 2.0


def test_bins_without_weight_do_not_count() -> None:
    """Low bins from one side, high bins from the other: the weights choose."""
    array = geometry("square-4")
    low = (FREQUENCIES_HZ < 2_000).astype(np.float32)
    spectra = np.where(low > 0, spectra_of(array, 40.0), spectra_of(array, -140.0, seed=1))[4:]
    locator = Locator(array, space=False, talkers=1)
    whitened = Whitened(array, locator.grid)
    for weights, azimuth in ((low, 40.0), (1 - low, -140.0)):
        share = np.tile(weights, (len(spectra), 1))
        sums, counted = whitened.sums(spectra, share, np.ones_like(share))
        power = whitened.power(sums.sum(axis=0) / counted.sum())
        assert abs(wrap(angles(locator.peaks(power)[0].direction)[0] - azimuth)) < 3


def test_silence_gives_no_voice_and_no_nan() -> None:
    locator = Locator(geometry("square-4"), space=False, talkers=2)
    locator.hear(np.zeros((8, 4, len(FREQUENCIES_HZ)), np.complex64))
    assert locator.voices == []


def test_a_voice_is_found_within_a_quarter_of_a_second() -> None:
    array = geometry("square-4")
    locator = Locator(array, space=False, talkers=2)
    spectra = spectra_of(array, 66.0)
    locator.hear(spectra[:31])
    voice = loudest(locator.voices)
    assert voice is not None
    assert abs(wrap(angles(voice.direction)[0] - 66.0)) < 2
