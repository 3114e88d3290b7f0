"""Texts are made comparable, and noise is added at the SNR that was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.bench.speech import mix, speech_power
from cosyd.bench.text import normalise, spell


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith's dog, “Rex”, is 12.", "mister smith's dog rex is twelve"),
        ("It’s the 22nd — or the 30th?", "it's the twenty second or the thirtieth"),
        ("In 1775, 1,234 men", "in seventeen seventy five one thousand two hundred thirty four men"),
        ("in 2005, 100", "in two thousand five one hundred"),
        ("2% milk & a café au lait", "two percent milk and a cafe au lait"),
        ("  ", ""),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected
    assert normalise(expected) == expected


def test_numbers_are_spelled() -> None:
    assert spell(0) == "zero"
    assert spell(40) == "forty"
    assert spell(1_000_017) == "one million seventeen"
    with pytest.raises(ValueError, match="below zero"):
        spell(-1)


def test_noise_is_added_at_the_snr_against_the_speech_not_its_pauses() -> None:
    rng = np.random.default_rng(0)
    speech = np.zeros(64 * 512, np.float32)
    speech[16 * 512 : 32 * 512] = 0.1 * np.sin(np.arange(16 * 512))
    noise = rng.standard_normal(16_000).astype(np.float32)
    added = mix(speech, noise, 10, seed=1) - speech
    assert 10 * np.log10(speech_power(speech) / np.mean(added**2)) == pytest.approx(10, abs=0.3)
    np.testing.assert_array_equal(added, mix(speech, noise, 10, seed=1) - speech)
    assert np.any(added != mix(speech, noise, 10, seed=2) - speech)
