"""Direct sound is told from what the room gives back."""

from __future__ import annotations

import numpy as np

from cosyd.array.onset import CAUTION, ROOM_S, Onsets
from cosyd.array.stft import BINS
from cosyd.spec import FRAME

HOPS_A_SECOND = FRAME.rate_hz // FRAME.hop


def spectra(power: list[float]) -> np.ndarray:
    """[hops, 2, BINS] with this power in every bin."""
    return np.sqrt(np.array(power, np.float32))[:, None, None] * np.ones((1, 2, BINS), np.complex64)


def decay(hops: int, rt60_s: float, from_power: float = 1.0) -> list[float]:
    return [from_power * 10 ** (-6 * hop / HOPS_A_SECOND / rt60_s) for hop in range(hops)]


def test_the_first_sound_is_direct_and_its_decay_is_not() -> None:
    shares = Onsets()(spectra(decay(40, ROOM_S)))[:, 7]
    assert shares[0] > 0.99
    assert np.allclose(shares[1:], 1 / (1 + CAUTION), atol=1e-3)


def test_what_rises_out_of_the_decay_is_direct_again() -> None:
    onsets = Onsets()
    onsets(spectra(decay(25, ROOM_S)))  # down by 24 dB
    assert onsets(spectra([1.0]))[0, 7] > 0.95


def test_a_steady_noise_counts_little_and_what_is_above_it_much() -> None:
    onsets = Onsets()
    steady = onsets(spectra([1.0] * 50))[:, 7]
    assert np.all(steady[1:] < 0.25)
    assert onsets(spectra([100.0]))[0, 7] > 0.95


def test_silence_lets_the_room_fade() -> None:
    onsets = Onsets()
    onsets(spectra([1.0]))
    onsets.fade(HOPS_A_SECOND // 2)
    assert onsets(spectra([1e-3]))[0, 7] > 0.95
    onsets(spectra([1.0]))
    onsets.reset()
    assert onsets(spectra([1e-9]))[0, 7] > 0.95


def test_nothing_at_all_is_no_direct_sound() -> None:
    shares = Onsets()(spectra([0.0] * 3))
    assert not shares.any()
