"""Whisper's features beside the definition, written out plainly."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.asr.whisper_features import HOP, LONGEST, WINDOW, frames_in, log_mel, mel_filters

RATE = 16_000


def plainly(audio: np.ndarray, mels: int) -> np.ndarray:
    """All 30 s, frame by frame, with a Fourier sum."""
    whole = np.zeros(30 * RATE)
    whole[: audio.size] = audio
    whole = np.pad(whole, WINDOW // 2, mode="reflect")
    t = np.arange(WINDOW)
    window = np.sin(np.pi * t / WINDOW) ** 2
    waves = np.exp(-2j * np.pi * np.outer(np.arange(WINDOW // 2 + 1), t) / WINDOW)
    frames = np.stack([whole[i * HOP : i * HOP + WINDOW] * window for i in range(LONGEST)])
    energies = mel_filters(mels) @ np.abs(waves @ frames.T) ** 2
    logs = np.log10(np.maximum(energies, 1e-10))
    return (np.maximum(logs, logs.max() - 8) + 4) / 4


@pytest.mark.parametrize("samples", [1, 399, 400, 16_000, 16_123])
def test_as_defined(samples: int) -> None:
    audio = (np.random.default_rng(samples).standard_normal(samples) * 0.1).astype(np.float32)
    np.testing.assert_allclose(log_mel(audio, 80), plainly(audio, 80), atol=2e-6)


def test_a_whole_window_differs_only_at_its_end() -> None:
    """Where the definition mirrors the end, silence follows."""
    audio = (np.random.default_rng(0).standard_normal(30 * RATE) * 0.1).astype(np.float32)
    np.testing.assert_allclose(log_mel(audio, 80)[:, :-2], plainly(audio, 80)[:, :-2], atol=2e-6)


def test_silence_is_flat() -> None:
    assert np.unique(log_mel(np.zeros(RATE, np.float32), 80)).tolist() == [-1.5]


@pytest.mark.parametrize("mels", [80, 128])
def test_filters_have_the_same_area_and_cover_the_band(mels: int) -> None:
    filters = mel_filters(mels)
    assert filters.shape == (mels, WINDOW // 2 + 1)
    peaks = filters.argmax(axis=1) * RATE / WINDOW
    assert (np.diff(peaks) >= 0).all()
    wide = filters[mels // 2 :]  # narrow ones lie between two bins
    np.testing.assert_allclose(wide.sum(axis=1) * RATE / WINDOW, 1.0, rtol=0.1)
    assert peaks[-1] > 7_500


def test_a_tone_is_loudest_in_its_filter() -> None:
    """Slaney's scale is linear below 1 kHz: 15 mels; 80 filters up to 8 kHz have 45.2 mels."""
    tone = 0.5 * np.sin(2 * np.pi * 1_000 * np.arange(RATE) / RATE).astype(np.float32)
    centre = log_mel(tone, 80)[:, 20:80].mean(axis=1).argmax()
    assert abs(centre + 1 - 15 / (45.245 / 81)) < 1


@pytest.mark.parametrize(("samples", "frames"), [(0, 0), (1, 1), (160, 1), (161, 2), (10**6, LONGEST)])
def test_frames_in(samples: int, frames: int) -> None:
    assert frames_in(samples) == frames
