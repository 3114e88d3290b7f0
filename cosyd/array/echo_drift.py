"""How much slower or faster playback runs than capture, read off the echo filter.

When the clocks differ, the echo path seems to lengthen or shorten steadily; the filter follows with a lag
that does not matter here, and the turn of its phases between two looks is the change of the delay.
"""

from __future__ import annotations

import numpy as np

from cosyd.array.echo_filter import Complex

LOOK_S = 0.25
MOST_PPM = 300.0  # crystals differ by 100 ppm at most; more is a wrong estimate
_NOTABLE_PPM = 5.0  # below this the filter follows by itself, and reading between samples is not worth it
_GAIN = 0.4  # share of a measured error that is corrected at once
_COHERENT = 0.7  # likeness of the paths at two looks that makes their difference a delay
_LOW_HZ, _HIGH_HZ = 300.0, 4_000.0  # above, 300 ppm in one look turn the phase by more than half a circle


class DriftTracker:
    """``ppm``: by how much the delay grows, in samples a million samples; who reads the reference obeys."""

    def __init__(self, block: int, rate_hz: int) -> None:
        frequency = np.fft.rfftfreq(2 * block, 1 / rate_hz)
        self._band = (frequency >= _LOW_HZ) & (frequency <= _HIGH_HZ)
        self._omega = 2 * np.pi * frequency[self._band] / rate_hz
        self._look = round(LOOK_S * rate_hz / block) * block
        self.reset()

    def reset(self) -> None:
        self.ppm = 0.0
        self._following = False  # once begun it goes on: switching would move the delay by part of a sample
        self.restart()

    def restart(self) -> None:
        """The path changed for another reason: the next look is a first one. What is known stays."""
        self._before: Complex | None = None
        self._since = 0

    @property
    def skew(self) -> float:
        """Growth of the delay in samples a sample; 0 as long as it is too small to matter."""
        return self.ppm * 1e-6 if self._following else 0.0

    def accept(self, weights: Complex, block: int, active: bool) -> None:
        """Once a block. ``active``: the filter has learnt from a reference meanwhile."""
        self._since += block if active else 0
        if self._since < self._look:
            return
        now = weights[..., self._band]
        if self._before is not None:
            self._measure(now)
        self._before, self._since = now.copy(), 0

    def _measure(self, now: Complex) -> None:
        assert self._before is not None
        cross = np.einsum("mprf,mprf->f", now, np.conj(self._before))
        norms = float(np.linalg.norm(now)) * float(np.linalg.norm(self._before))
        if norms == 0 or float(np.abs(cross).sum()) < _COHERENT * norms:
            return
        weight = np.abs(cross) * self._omega
        delay = -float((weight * np.angle(cross)).sum()) / float((weight * self._omega).sum())
        ppm = self.ppm + _GAIN * delay / self._look * 1e6
        self._following |= min(abs(ppm), abs(self.ppm)) > _NOTABLE_PPM
        self.ppm = float(np.clip(ppm, -MOST_PPM, MOST_PPM))
