"""How long after the reference its echo arrives: generalised cross-correlation over a long range.

GCC-PHAT: C. Knapp and G. Carter, "The generalized correlation method for estimation of time delay", IEEE
Trans. ASSP 24 (1976). Every bin counts alike, so the direct path stands out of the reverberation as a peak.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float32]

WINDOW_S = 0.5  # of microphone signal in one look; a jump shows when about half of it lies behind it
STEP_S = 0.25  # between looks
_LOW_HZ, _HIGH_HZ = 150.0, 6_000.0  # what small loudspeakers play
_KEEP = 0.5  # of the former looks' correlation: the peak of speech with pauses stays while noise averages out
_CLEAR = 12.0  # standard deviations by which a peak stands out of the correlation that noise makes
_NEAR = 3  # samples that the peak of one look may lie beside that of several
_LOUD = 1e-7  # power of a reference that is worth looking at: -70 dBFS


@dataclass(frozen=True)
class DelayEstimate:
    """``delay``: samples from the reference to its echo. ``clarity``: height of the peak in deviations.

    ``exact``: the same delay between samples, as this look alone has it; None where it does not show it.
    """

    delay: int
    clarity: float
    exact: float | None = None


class DelayEstimator:
    """Looks at the last half second every quarter of a second. ``longest``: longest delay in samples."""

    def __init__(self, rate_hz: int, longest: int) -> None:
        self._window = round(WINDOW_S * rate_hz)
        self._step = round(STEP_S * rate_hz)
        self._longest = longest
        self._size = 1 << (self._window + longest - 1).bit_length()
        frequency = np.fft.rfftfreq(self._size, 1 / rate_hz)
        self._band = (frequency >= _LOW_HZ) & (frequency <= _HIGH_HZ)
        self._mic = np.zeros(self._window, np.float32)
        self._reference = np.zeros(self._window + longest, np.float32)
        self.reset()

    def reset(self) -> None:
        self._mic[:] = 0
        self._reference[:] = 0
        self._since = 0
        self._correlation: Real = np.zeros(self._longest + 1, np.float32)

    def forget(self) -> None:
        """The delay has changed: earlier looks say nothing."""
        self._correlation[:] = 0

    def accept(self, mic: Real, reference: Real) -> DelayEstimate | None:
        """Samples of one microphone and of the reference [n]; an estimate when it is time and clear."""
        for line, new in ((self._mic, mic), (self._reference, reference)):
            line[: -len(new)] = line[len(new) :]
            line[-len(new) :] = new
        self._since += len(mic)
        if self._since < self._step:
            return None
        self._since = 0
        return self._look()

    def _look(self) -> DelayEstimate | None:
        played = self._reference[: self._window + self._longest]
        if min(np.mean(played * played), np.mean(self._mic * self._mic)) < _LOUD:
            return None
        # Both end at the same moment; the reference begins ``longest`` earlier, so lag 0 is its end.
        cross = np.fft.rfft(self._mic, self._size) * np.conj(np.fft.rfft(played, self._size))
        magnitude = np.abs(cross)
        white = np.where(self._band & (magnitude > 0), cross / np.maximum(magnitude, 1e-30), 0)
        lags = np.fft.irfft(white, self._size)
        found = lags[-self._longest :] if self._longest else lags[:0]
        # index i of the circular result is mic against reference shifted by i; here shift = delay - longest
        now = np.concatenate([found, lags[:1]])[: self._longest + 1]
        self._correlation = np.float32(_KEEP) * self._correlation + now.astype(np.float32)
        best, clarity = _peak(self._correlation)
        return DelayEstimate(best, clarity, _exact(now, best)) if clarity >= _CLEAR else None


def _peak(correlation: Real) -> tuple[int, float]:
    """Where it is highest, and by how many deviations of what noise makes."""
    heights = np.abs(correlation)
    best = int(heights.argmax())
    deviation = float(np.median(heights)) / 0.6745  # of a normal distribution, unmoved by the peaks
    return best, float(heights[best]) / max(deviation, 1e-12)


def _exact(correlation: Real, near: int) -> float | None:
    """The top of the parabola through the highest of a correlation, if that is ``near``."""
    best, clarity = _peak(correlation)
    if clarity < _CLEAR or abs(best - near) > _NEAR or not 0 < best < len(correlation) - 1:
        return None
    left, top, right = (np.sign(correlation[best]) * correlation[best - 1 : best + 2]).tolist()
    return best + 0.5 * float((left - right) / (left - 2 * top + right))
