"""Gains and delays found in simulated rooms, and recordings refused that tell none."""

from __future__ import annotations

import numpy as np
import pytest
from array_sound import at_microphones
from echo_scene import RATE, Real, babble, hiss

from cosyd.array.calibrate import from_claps, from_noise
from cosyd.array.geometry import Geometry
from cosyd.config.schema import ArrayConfig
from cosyd.errors import CosydError

FOUR = Geometry.of(ArrayConfig(geometry="square-4"))
SEVEN = Geometry.of(ArrayConfig(geometry="uma-8"))


def all_around(geometry: Geometry, seconds: float = 12.0, seed: int = 1) -> Real:
    """Noise from many directions of space at once [n, microphones]."""
    random = np.random.default_rng(seed)
    n = round(seconds * RATE)
    directions = random.standard_normal((60, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    frequency = np.fft.rfftfreq(n, 1 / RATE)
    total = np.zeros((len(frequency), geometry.microphones), complex)
    for lead in geometry.leads(directions):
        wave = np.fft.rfft(random.standard_normal(n))
        total += wave[:, None] * np.exp(2j * np.pi * frequency[:, None] * lead)
    sound = np.fft.irfft(total, n, axis=0)
    return (0.01 * sound / sound.std()).astype(np.float32)


def late(frames: Real, delays_us: tuple[float, ...]) -> Real:
    """Each channel later by so much (circular)."""
    frequency = np.fft.rfftfreq(len(frames), 1 / RATE)
    turns = np.exp(-2j * np.pi * frequency[:, None] * np.array(delays_us)[None] * 1e-6)
    return np.fft.irfft(np.fft.rfft(frames, axis=0) * turns, len(frames), axis=0).astype(np.float32)


@pytest.mark.parametrize("geometry", [FOUR, SEVEN])
def test_gains_and_delays_from_noise_all_around(geometry: Geometry) -> None:
    count = geometry.microphones
    delays = tuple(float(d) for d in np.linspace(-80, 160, count))
    gains = np.linspace(-4, 5, count)
    frames = late(all_around(geometry), delays) * (10 ** (gains / 20)).astype(np.float32)
    found = from_noise(frames, geometry, RATE)
    assert found.delays_us is not None
    assert found.gains_db == pytest.approx(np.median(gains) - gains, abs=0.3)
    assert np.array(found.delays_us) == pytest.approx(np.array(delays) - np.median(delays), abs=12)


def test_matched_microphones_need_nothing() -> None:
    found = from_noise(all_around(FOUR), FOUR, RATE)
    assert found.delays_us is not None
    assert max(map(abs, found.gains_db)) < 0.3 and max(map(abs, found.delays_us)) < 12


def test_noise_from_one_side_tells_gains_only() -> None:
    fan = at_microphones(babble(8, 3), FOUR, 50)
    found = from_noise(fan, FOUR, RATE)
    assert found.delays_us is None and "from one side" in found.notes[0]
    assert max(map(abs, found.gains_db)) < 0.5


def test_microphones_far_apart_get_gains_only() -> None:
    wide = Geometry.of(ArrayConfig(positions_m=((0, 0), (1.5, 0), (0, 1.5))))
    frames = hiss((8 * RATE, 3), db=-50)
    found = from_noise(frames, wide, RATE)
    assert found.delays_us is None and "far apart" in found.notes[0]


def test_somebody_who_speaks_now_and_then_is_left_out() -> None:
    frames = all_around(FOUR)
    frames[3 * RATE : 5 * RATE] += 20 * at_microphones(babble(2, 3), FOUR, 50) * np.float32([1, 3, 1, 1])
    found = from_noise(frames, FOUR, RATE)
    assert max(map(abs, found.gains_db)) < 0.3


def test_too_short_and_too_quiet_are_refused() -> None:
    with pytest.raises(CosydError, match=r"at least 5 s"):
        from_noise(all_around(FOUR, seconds=2), FOUR, RATE)
    with pytest.raises(CosydError, match="is the input muted"):
        from_noise(np.zeros((8 * RATE, 4), np.float32), FOUR, RATE)
    dead = all_around(FOUR, seconds=6)
    dead[:, 2] = 0
    with pytest.raises(CosydError, match="microphone 2 is silent"):
        from_noise(dead, FOUR, RATE)


# --- claps ---


def claps(geometry: Geometry, azimuth_deg: float, count: int = 3) -> Real:
    random = np.random.default_rng(9)
    sound = np.zeros(count * RATE, np.float32)
    for index in range(count):
        burst = random.standard_normal(400) * np.exp(-np.arange(400) / 40)
        sound[index * RATE + 8_000 : index * RATE + 8_400] = 0.3 * burst
    return at_microphones(sound, geometry, azimuth_deg) + hiss((len(sound), geometry.microphones), db=-65)


@pytest.mark.parametrize("geometry", [FOUR, SEVEN])
def test_delays_from_claps(geometry: Geometry) -> None:
    count = geometry.microphones
    delays = tuple(float(d) for d in np.linspace(-100, 50, count))
    found = from_claps(late(claps(geometry, 30), delays), geometry, RATE, 30)
    assert np.array(found.delays_us) == pytest.approx(np.array(delays) - np.median(delays), abs=10)
    assert found.notes[0] == "3 claps"


def test_matched_microphones_hear_a_clap_as_expected() -> None:
    found = from_claps(claps(SEVEN, -100), SEVEN, RATE, -100)
    assert max(map(abs, found.delays_us or (1e9,))) < 10
    assert found.notes == ("3 claps",)


def test_rotated_channels_show_in_a_clap() -> None:
    frames = np.roll(claps(FOUR, 45), 1, axis=1)
    found = from_claps(frames, FOUR, RATE, 45)
    assert any("rotated" in line and "135°, not 45°" in line for line in found.notes)
    assert found.delays_us is None  # they would bend the array to the wrong direction


def test_no_clap_is_refused() -> None:
    with pytest.raises(CosydError, match="none of them a clear clap"):
        from_claps(hiss((5 * RATE, 4), db=-50), FOUR, RATE, 0)
