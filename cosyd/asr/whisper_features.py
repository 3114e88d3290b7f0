"""Whisper's features: logarithms of mel energies, 100 a second.

As in Radford et al. 2022: frames of 25 ms (Hann window, periodic) every 10 ms, centred, with the beginning
mirrored; power spectrum; 80 or 128 triangular filters on Slaney's mel scale, each of the same area; log10,
at most 8 below the largest (80 dB), shifted and scaled to about ±1. What is shorter than the window of the
network is followed by silence, not by zeros in place of features: so it was trained.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cosyd.spec import FRAME

Audio = NDArray[np.float32]
Features = NDArray[np.float32]

WINDOW = FRAME.rate_hz // 40  # samples of a frame
HOP = FRAME.rate_hz // 100
FRAMES_PER_S = FRAME.rate_hz // HOP
LONGEST = 30 * FRAMES_PER_S  # frames of the network's window
_FLOOR = 1e-10  # energy of digital silence: -10 after the logarithm
_RANGE = 8.0  # powers of ten below the largest that still count

# Slaney's mel scale (Auditory Toolbox, 1998): linear up to 1 kHz, logarithmic above.
_LINEAR_HZ = 200 / 3  # Hz a mel
_BREAK_HZ = 1000.0
_BREAK_MEL = _BREAK_HZ / _LINEAR_HZ
_LOG_STEP = np.log(6.4) / 27


def frames_in(samples: int) -> int:
    """Frames that so many samples fill, at most the network's window."""
    return min(LONGEST, -(-samples // HOP))


def log_mel(audio: Audio, mels: int, frames: int = LONGEST) -> Features:
    """float32 [mels, frames] of float32 [n] in ±1 at 16 kHz; silence follows the audio, or it is cut."""
    spoken = min(frames, frames_in(audio.size) + 2)  # the last window that touches the audio is centred after
    energies = mel_filters(mels) @ _power(audio[: spoken * HOP], spoken)
    logs = np.full((mels, frames), np.log10(_FLOOR))
    logs[:, :spoken] = np.log10(np.maximum(energies, _FLOOR))
    scaled: Features = ((np.maximum(logs, logs.max() - _RANGE) + 4) / 4).astype(np.float32)
    return scaled


def _power(audio: Audio, frames: int) -> NDArray[np.float64]:
    """[WINDOW // 2 + 1, frames]: power spectra of frames centred on multiples of HOP."""
    half = WINDOW // 2
    padded = np.zeros(half + frames * HOP + half)
    padded[half : half + audio.size] = audio
    padded[:half] = padded[2 * half : half : -1]
    pieces = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][:frames]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power: NDArray[np.float64] = np.square(np.abs(np.fft.rfft(pieces * window, axis=1))).T
    return power


@lru_cache(maxsize=2)  # 80 of all models but large-v3 and those made of it, which have 128
def mel_filters(mels: int) -> NDArray[np.float64]:
    """[mels, WINDOW // 2 + 1]: triangles between neighbours on the mel scale up to half the rate."""
    edges = _to_hz(np.linspace(0.0, _to_mel(FRAME.rate_hz / 2), mels + 2))
    bins = np.fft.rfftfreq(WINDOW, 1 / FRAME.rate_hz)
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    area = 2 / (edges[2:] - edges[:-2])
    filters: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling)) * area[:, None]
    return filters


def _to_mel(hz: float) -> float:
    if hz < _BREAK_HZ:
        return hz / _LINEAR_HZ
    return float(_BREAK_MEL + np.log(hz / _BREAK_HZ) / _LOG_STEP)


def _to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _BREAK_HZ * np.exp(_LOG_STEP * (mel - _BREAK_MEL))
    return np.where(mel < _BREAK_MEL, mel * _LINEAR_HZ, above)
