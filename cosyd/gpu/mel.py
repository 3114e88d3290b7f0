"""Mel filter banks and windows of the two feature families, designed in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.spec import FRAME

Array = NDArray[Any]


@dataclass(frozen=True)
class MelDesign:
    """Everything that distinguishes a feature family. Lengths in samples at 16 kHz, frequencies in Hz."""

    name: str
    bins: int
    length: int
    shift: int
    fft: int
    reach: int  # the frame ends this many samples after shift * index
    low_hz: float
    high_hz: float
    preemphasis: float  # 0: neither pre-emphasis nor removal of the frame's mean
    floor: float
    natural: bool  # logarithm to base e, else 10
    mirror_edge: bool  # sample -j before the start is sample j - 1 (else j)

    def window(self) -> Array:
        i = np.arange(self.length)
        if self.natural:  # Povey's
            return np.asarray((0.5 - 0.5 * np.cos(2 * np.pi * i / (self.length - 1))) ** 0.85)
        return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi * i / self.length))

    def bank(self) -> Array:
        """float64 [bins, fft/2 + 1]."""
        return _kaldi_bank(self) if self.natural else _slaney_bank(self)

    def table(self) -> tuple[Array, Array]:
        """The bank without its zeros: int32 [bins, 4] (first bin, count, offset, 0), float32 weights."""
        rows, weights, offset = [], [], 0
        for row in self.bank().astype(np.float32):
            used = np.flatnonzero(row)
            first, count = (int(used[0]), int(used[-1] - used[0] + 1)) if len(used) else (0, 0)
            rows.append((first, count, offset, 0))
            weights.append(row[first : first + count])
            offset += count
        return np.array(rows, np.int32), np.concatenate(weights)

    def ready(self, samples: int) -> int:
        """Frames that are complete once ``samples`` samples have come."""
        return 0 if samples < self.reach else (samples - self.reach) // self.shift + 1


KALDI = MelDesign(
    "kaldi", 80, 400, 160, 512, 280, 20.0, 7600.0, 0.97, float(np.finfo(np.float32).eps), True, True
)
WHISPER = MelDesign("whisper", 80, 400, 160, 400, 200, 0.0, 8000.0, 0.0, 1e-10, False, False)


def _triangles(points: Array, positions: Array) -> Array:
    """Row m rises from points[m] to points[m+1] and falls to points[m+2]."""
    left, centre, right = (points[i : len(points) - 2 + i, None] for i in range(3))
    rise, fall = (positions - left) / (centre - left), (right - positions) / (right - centre)
    return np.asarray(np.maximum(0, np.minimum(rise, fall)))


def _kaldi_bank(design: MelDesign) -> Array:
    """Triangles on the mel scale 1127 ln(1 + f/700)."""

    def mel(hz: Any) -> Array:
        return np.asarray(1127.0 * np.log(1 + np.asarray(hz) / 700.0))

    points = np.linspace(mel(design.low_hz), mel(design.high_hz), design.bins + 2)
    return _triangles(points, mel(np.arange(design.fft // 2 + 1) * FRAME.rate_hz / design.fft))


def _slaney_bank(design: MelDesign) -> Array:
    """Triangles of equal area in Hz, evenly spaced on Slaney's scale: linear to 1 kHz, then logarithmic."""
    linear, log_step, knee = 200.0 / 3, np.log(6.4) / 27, 1000.0
    knee_mel = knee / linear

    def mel(hz: float) -> float:
        return hz / linear if hz < knee else knee_mel + float(np.log(hz / knee)) / log_step

    points = np.linspace(mel(design.low_hz), mel(design.high_hz), design.bins + 2)
    hz = np.where(points < knee_mel, points * linear, knee * np.exp(log_step * (points - knee_mel)))
    bank = _triangles(hz, np.arange(design.fft // 2 + 1) * FRAME.rate_hz / design.fft)
    return np.asarray(bank * (2 / (hz[2:] - hz[:-2]))[:, None])
