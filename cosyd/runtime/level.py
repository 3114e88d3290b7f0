"""Loudness of a source, per channel, at a steady pace."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.pcm import to_float
from cosyd.spec import AudioSpec
from cosyd.types import Level

FLOOR_DB = -120.0
CLIP = 0.999  # a sample this close to full scale counts as clipped


class LevelMeter:
    """Collects squares and peaks over ``period_ms`` of audio. A period of 0 measures nothing."""

    def __init__(self, period_ms: int) -> None:
        self.period_ms = period_ms
        self._squares: NDArray[np.float64] | None = None
        self._peaks: NDArray[np.float64] | None = None
        self._frames = 0

    def accept(
        self, frames: NDArray[np.generic], sample: int, spec: AudioSpec, vad_prob: float
    ) -> Level | None:
        """Take device frames [n, channels]; a ``Level`` when a period is full."""
        if not self.period_ms or not len(frames):
            return None
        x = to_float(frames)
        if frames.dtype.kind == "f":
            x = np.nan_to_num(x)
        if self._squares is None or self._peaks is None:
            self._squares = np.zeros(spec.channels)
            self._peaks = np.zeros(spec.channels)
        self._squares += np.einsum("nc,nc->c", x, x, dtype=np.float64)
        np.maximum(self._peaks, np.abs(x).max(axis=0), out=self._peaks)
        self._frames += len(x)
        if self._frames * 1000 < self.period_ms * spec.rate_hz:
            return None
        level = Level(
            sample + len(frames),
            _decibels(np.sqrt(self._squares / self._frames)),
            _decibels(self._peaks),
            vad_prob,
            bool((self._peaks >= CLIP).any()),
        )
        self._squares = self._peaks = None
        self._frames = 0
        return level


def _decibels(amplitude: NDArray[np.float64]) -> tuple[float, ...]:
    floor = 10 ** (FLOOR_DB / 20)
    return tuple(round(float(v), 1) for v in 20 * np.log10(np.maximum(amplitude, floor)))
