"""Loudness of a source, per channel, at a steady pace."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.pcm import to_float
from cosyd.spec import FLOOR_DB, AudioSpec
from cosyd.types import Level

HELD_S = 0.5  # of frames at most: 0.4 MB of 8 channels
CLIP = 0.999  # a sample this close to full scale counts as clipped


class LevelMeter:
    """Collects squares and peaks over ``period_ms`` of audio. A period of 0 measures nothing.

    Frames are held and looked at together, which costs a third of looking at each few on their own.
    """

    def __init__(self, period_ms: int) -> None:
        self.period_ms = period_ms
        self._squares: NDArray[np.float64] | None = None
        self._peaks: NDArray[np.float64] | None = None
        self._frames = 0
        self._held: list[NDArray[np.generic]] = []  # bounded by HELD_S
        self._held_frames = 0

    def accept(
        self, frames: NDArray[np.generic], sample: int, spec: AudioSpec, vad_prob: float
    ) -> Level | None:
        """Take device frames [n, channels]; a ``Level`` when a period is full."""
        if not self.period_ms or not len(frames):
            return None
        self._held.append(frames.copy())
        self._held_frames += len(frames)
        self._frames += len(frames)
        full = self._frames * 1000 >= self.period_ms * spec.rate_hz
        if full or self._held_frames >= HELD_S * spec.rate_hz:
            self._look(spec.channels)
        return self._level(sample + len(frames), vad_prob) if full else None

    def _look(self, channels: int) -> None:
        """At what is held."""
        frames = np.concatenate(self._held)
        self._held, self._held_frames = [], 0
        x = to_float(frames)
        if frames.dtype.kind == "f":
            x = np.nan_to_num(x)
        if self._squares is None or self._peaks is None:
            self._squares, self._peaks = np.zeros(channels), np.zeros(channels)
        self._squares += np.einsum("nc,nc->c", x, x, dtype=np.float64)
        np.maximum(self._peaks, np.abs(x).max(axis=0), out=self._peaks)

    def _level(self, sample: int, vad_prob: float) -> Level:
        """Of the period that ends at ``sample``; the next one begins."""
        assert self._squares is not None and self._peaks is not None
        level = Level(
            sample,
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
