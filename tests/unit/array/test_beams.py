"""Beams against closed forms: what is looked at passes unchanged, the rest as theory says."""

from __future__ import annotations

import numpy as np
import pytest
from array_waves import geometry, plane_wave, white
from numpy.typing import NDArray

from cosyd.array import beams
from cosyd.array.geometry import Geometry, unit
from cosyd.array.noise import NoiseField
from cosyd.array.path import Beam
from cosyd.array.stft import BINS, FREQUENCIES_HZ, Analysis, Synthesis
from cosyd.config.arrays import SPEED_OF_SOUND
from cosyd.config.schema import ArrayConfig, ZoneConfig
from cosyd.spec import FRAME

LOADING = 0.01


def all_beams(array: Geometry, azimuth: float) -> dict[str, beams.Vector]:
    d = beams.steering(array, unit(azimuth))
    rng = np.random.default_rng(1)
    x = rng.standard_normal((BINS, array.microphones, 40)) + 1j * rng.standard_normal(
        (BINS, array.microphones, 40)
    )
    return {
        "delay-sum": beams.delay_and_sum(d),
        "superdirective": beams.mvdr(d, beams.diffuse(array), LOADING),
        "adaptive": beams.mvdr(d, x @ x.conj().transpose(0, 2, 1), 1e-6),
    }


def white_noise_gain(weights: NDArray[np.complexfloating]) -> NDArray[np.float64]:
    """By how much the beam is better against the microphones' own noise than one of them: 1/|w|² a bin."""
    return np.asarray(1 / np.square(np.abs(weights)).sum(axis=1))


def directivity(
    weights: NDArray[np.complexfloating], field: NDArray[np.complexfloating]
) -> NDArray[np.float64]:
    """By how much the beam is better against a diffuse field than one microphone, a bin."""
    return np.asarray(1 / np.einsum("fi,fij,fj->f", weights.conj(), field, weights).real)


@pytest.mark.parametrize("name", ["square-4", "linear-4", "uma-8", "respeaker-6"])
@pytest.mark.parametrize("azimuth", [0.0, 77.7, -150.0])
def test_what_is_looked_at_passes_unchanged(name: str, azimuth: float) -> None:
    array = geometry(name)
    d = beams.steering(array, unit(azimuth))
    for beam, weights in all_beams(array, azimuth).items():
        assert np.abs(beams.response(weights, d) - 1).max() < 1e-6, beam


def test_delay_and_sum_has_the_white_noise_gain_of_so_many_microphones() -> None:
    for name in ("square-4", "uma-8"):
        array = geometry(name)
        gain = white_noise_gain(all_beams(array, 30.0)["delay-sum"])
        assert gain == pytest.approx(np.full(BINS, array.microphones))


def test_the_response_of_delay_and_sum_to_a_line_is_the_dirichlet_kernel() -> None:
    array, spacing = geometry("linear-4"), 0.033
    weights = all_beams(array, 90.0)["delay-sum"]
    for azimuth in (20.0, 50.0, 90.0):
        d = beams.steering(array, unit(azimuth))
        half = np.pi * FREQUENCIES_HZ * spacing * np.cos(np.radians(azimuth)) / SPEED_OF_SOUND
        with np.errstate(invalid="ignore"):
            kernel = np.where(np.abs(np.sin(half)) < 1e-9, 1.0, np.sin(4 * half) / (4 * np.sin(half)))
        assert beams.response(weights, d) == pytest.approx(kernel, abs=1e-9)


def test_the_superdirective_beam_is_the_best_in_a_diffuse_field() -> None:
    array = geometry("uma-8")
    field = beams.diffuse(array)
    d = beams.steering(array, unit(45.0))
    best = directivity(beams.mvdr(d, field, 1e-9), field)
    plain = directivity(beams.delay_and_sum(d), field)
    robust = directivity(beams.mvdr(d, field, LOADING), field)
    assert np.all(best[1:] >= robust[1:] * (1 - 1e-6)) and np.all(robust[1:] > plain[1:] * (1 - 1e-9))
    speech = (FREQUENCIES_HZ > 500) & (FREQUENCIES_HZ < 4_000)
    assert 10 * np.log10(robust[speech].mean()) > 5.5


def test_loading_bounds_the_amplification_of_the_microphones_noise() -> None:
    array = geometry("square-4")
    d = beams.steering(array, unit(0.0))
    gains = [
        white_noise_gain(beams.mvdr(d, beams.diffuse(array), 10 ** (db / 10))).min()
        for db in (-40, -20, 0, 20)
    ]
    assert gains == sorted(gains)
    assert gains[-1] == pytest.approx(array.microphones, rel=0.05)


def test_mvdr_puts_a_null_on_a_single_noise() -> None:
    array = geometry("square-4")
    noise = beams.steering(array, unit(120.0))
    weights = beams.mvdr(beams.steering(array, unit(0.0)), noise[:, :, None] * noise[:, None].conj(), 1e-4)
    rejected = np.abs(beams.response(weights, noise))
    assert 20 * np.log10(rejected[FREQUENCIES_HZ > 300].max()) < -20


def test_a_sector_s_field_has_as_much_power_at_every_microphone() -> None:
    field = beams.sector(geometry("square-4"), 30.0, 90.0)
    assert np.einsum("fii->fi", field) == pytest.approx(np.ones((BINS, 4)))
    assert field == pytest.approx(field.conj().transpose(0, 2, 1))


def test_an_ignored_zone_is_suppressed_by_the_fixed_beam() -> None:
    array = geometry("uma-8")
    config = {"geometry": "uma-8", "beamformer": "superdirective", "steer": "fixed", "azimuth_deg": 0.0}
    zone = ZoneConfig(name="tv", from_deg=80.0, to_deg=110.0, listen=False)
    tv = beams.steering(array, unit(95.0))
    speech = (FREQUENCIES_HZ > 500) & (FREQUENCIES_HZ < 3_500)
    level = {
        name: np.square(np.abs(beams.response(Beam(ArrayConfig(**config, zones=zones), array)._now, tv)))[
            speech
        ]
        for name, zones in (("open", ()), ("ignored", (zone,)))
    }
    assert 10 * np.log10(level["ignored"].mean() / level["open"].mean()) < -6


def test_the_noise_field_is_learned_from_what_is_noise_only() -> None:
    array = geometry("square-4")
    field = NoiseField(beams.diffuse(array))
    assert field.covariance() == pytest.approx(beams.diffuse(array))
    speech = Analysis(4)(plane_wave(array, white(60, 1), 0.0))
    noise = Analysis(4)(plane_wave(array, white(60, 2), 100.0))
    for hop in range(0, 240, 4):
        field.learn(speech[hop : hop + 4], np.zeros((4, BINS), np.float32))
        field.learn(noise[hop : hop + 4], np.ones((4, BINS), np.float32))
    d = beams.steering(array, unit(100.0))
    wanted = d[:, :, None] * d[:, None].conj()
    trust = 0.75  # the assumption still counts for a part
    middle = slice(10, 100)
    correlation = np.einsum("fij,fij->f", field.covariance()[middle], wanted[middle].conj()).real / 16
    assert correlation.min() > trust


# --- spectra and back -----------------------------------------------------------------------------------


def test_spectra_and_back_change_nothing_and_take_one_hop() -> None:
    x = white(8)[None]
    synthesis, analysis = Synthesis(), Analysis(1)
    out = np.concatenate([synthesis(analysis(x[:, i : i + 512])[:, 0]) for i in range(0, x.shape[1], 512)])
    assert synthesis.delay == FRAME.hop
    assert out[FRAME.hop :] == pytest.approx(x[0, : -FRAME.hop], abs=1e-6)


def test_cutting_into_other_blocks_changes_nothing() -> None:
    x = white(6)[None]
    whole = Analysis(1)(x)
    pieces = Analysis(1)
    parts = [pieces(x[:, i : i + 128]) for i in range(0, x.shape[1], 128)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_turning_the_beam_makes_no_click() -> None:
    """A tone from one place while the beam swings around: nothing is added outside of the tone's band."""
    config = ArrayConfig(geometry="square-4", beamformer="superdirective")
    array = Geometry.of(config)
    n = 40 * FRAME.block
    tone = (0.5 * np.sin(2 * np.pi * 1_000 * np.arange(n) / FRAME.rate_hz)).astype(np.float32)
    x = plane_wave(array, tone, 20.0)
    beam, analysis, synthesis = Beam(config, array), Analysis(4), Synthesis()
    beam.look(unit(20.0))
    out = []
    for index in range(40):
        if index % 4 == 3:
            beam.look(unit(20.0 if index % 8 == 3 else 200.0))
        beam.turn()
        out.append(synthesis(beam(analysis(x[:, index * 512 : (index + 1) * 512]))))
    y = np.concatenate(out)[1024:-1024]
    spectrum = np.abs(np.fft.rfft(y * np.hanning(len(y)))) ** 2
    frequencies = np.fft.rfftfreq(len(y), 1 / FRAME.rate_hz)
    outside = spectrum[np.abs(frequencies - 1_000) > 250].sum() / spectrum.sum()
    assert 10 * np.log10(outside) < -45
