"""The resampler against closed forms and scipy (field cases 5 and 6: lengths, images)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from cosyd.frontend.resample import Resampler

RATES = [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 47_999, 48_000, 96_000, 176_400, 192_000]
RATE = 16_000


def resample(x: np.ndarray, rate: int, cuts: list[int] | None = None, lead: int = 0) -> np.ndarray:
    """Everything, cut at ``cuts``; only the outputs that lie within the input."""
    resampler = Resampler(rate, lead=lead)
    out = []
    for piece in np.split(x.astype(np.float32), cuts or []):
        resampler.push(piece)
        while (block := resampler.take()) is not None:
            out.append(block)
    resampler.finish(resampler.expected)
    while (block := resampler.take()) is not None:
        out.append(block)
    return np.concatenate(out)[: resampler.expected + lead] if out else np.empty(0, np.float32)


def sine(frequency: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


def inner(x: np.ndarray) -> np.ndarray:
    """Without the ends, where the filter sees what is not there."""
    return x[400:-400]


def decibel(x: np.ndarray) -> float:
    """Level of a sine of amplitude 1 is 0."""
    return 10 * np.log10(2 * np.mean(np.square(x, dtype=np.float64)) + 1e-20)


@pytest.mark.parametrize("rate", RATES)
def test_1_khz_keeps_its_level_and_its_time(rate: int) -> None:
    """Compared sample by sample with the sine at the outputs' own times: no delay is left."""
    out = resample(sine(1000, rate), rate)
    assert abs(decibel(inner(out))) <= 0.01
    expected = np.sin(2 * np.pi * 1000 * np.arange(len(out)) / RATE)
    np.testing.assert_allclose(inner(out), inner(expected), atol=4e-4)


@pytest.mark.parametrize("rate", [rate for rate in RATES if rate >= RATE])
@pytest.mark.parametrize("frequency", [100, 4000, 6900])
def test_the_pass_band_is_flat(rate: int, frequency: int) -> None:
    assert abs(decibel(inner(resample(sine(frequency, rate), rate)))) <= 0.1


@pytest.mark.parametrize("rate", [rate for rate in RATES if rate > 2 * RATE])
@pytest.mark.parametrize("frequency", [8100, 9000, 12_000, 15_000, 20_000])
def test_nothing_folds_back(rate: int, frequency: int) -> None:
    assert decibel(inner(resample(sine(frequency, rate), rate))) <= -60


@pytest.mark.parametrize(("rate", "frequency"), [(8_000, 3_000), (11_025, 4_000)])
def test_raising_the_rate_makes_no_images(rate: int, frequency: int) -> None:
    out = inner(resample(sine(frequency, rate), rate))
    spectrum = np.abs(np.fft.rfft(out * np.hanning(len(out)))) ** 2
    bins = np.fft.rfftfreq(len(out), 1 / RATE)
    assert 10 * np.log10(spectrum[bins > rate / 2].sum() / spectrum.sum()) <= -60


@pytest.mark.parametrize("rate", RATES)
def test_as_many_outputs_as_the_time_has(rate: int) -> None:
    for frames in (1, rate // 7, rate):
        assert abs(len(resample(np.ones(frames), rate)) - frames * RATE / rate) <= 1


@pytest.mark.parametrize("rate", [44_100, 48_000, 22_050, 8_000])
def test_band_limited_noise_equals_scipys(rate: int) -> None:
    """scipy.signal.resample_poly in float64 with a longer filter of its own; noise below the pass edge."""
    rng = np.random.default_rng(1)
    edge = 0.9 * 0.4375 * min(rate, RATE)
    x = signal.sosfiltfilt(signal.cheby2(12, 100, edge, fs=rate, output="sos"), rng.standard_normal(rate))
    common = np.gcd(rate, RATE)
    taps = signal.firwin(20_001, 0.5 * min(rate, RATE), fs=rate * RATE / common, window=("kaiser", 12.0))
    expected = signal.resample_poly(x, RATE // common, rate // common, window=taps)
    got = resample(x, rate)[: len(expected)]
    assert np.abs(inner(got) - inner(expected)).max() < 1e-3 * np.abs(x).max()


def test_a_constant_stays_one_from_the_first_sample_to_the_last() -> None:
    for rate in (8_000, 44_100, 48_000):
        np.testing.assert_allclose(resample(np.full(rate, 0.5), rate, lead=128), 0.5, atol=1e-6)


def test_equal_rates_change_no_bit() -> None:
    x = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
    np.testing.assert_array_equal(resample(x, RATE), x)


@settings(max_examples=25, deadline=None)
@given(rate=st.sampled_from([8_000, 11_025, 16_000, 44_100, 47_999, 48_000]), data=st.data())
def test_cutting_the_input_changes_no_bit(rate: int, data: st.DataObject) -> None:
    x = np.random.default_rng(rate).standard_normal(rate // 4)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(x)), max_size=30)))
    np.testing.assert_array_equal(resample(x, rate, cuts, lead=128), resample(x, rate, lead=128))


def test_the_clock_of_an_output_is_the_nearest_input_sample() -> None:
    resampler = Resampler(44_100)
    for output in (-512, 0, 1, 160, 12_345_678_901):
        assert abs(resampler.input_time(output) - output * 44_100 / RATE) <= 0.5


def test_an_hour_in_keeps_the_buffer_small() -> None:
    resampler = Resampler(48_000)
    for _ in range(300):
        resampler.push(np.zeros(4800, np.float32))
        while resampler.take() is not None:
            pass
    assert resampler._buffer.base is None or resampler._buffer.base.size < 10_000
    assert resampler._buffer.size < 2_000


def test_pushing_after_the_end_is_an_error() -> None:
    resampler = Resampler(48_000)
    resampler.push(np.zeros(10, np.float32))
    resampler.finish(4)
    with pytest.raises(ValueError, match="after the end"):
        resampler.push(np.zeros(10, np.float32))
