"""How much slower or faster playback runs than capture, read off the delays that correlation finds.

When the clocks differ, the echo comes later and later after what was played, or earlier and earlier: the
slope of a line through the delays of some seconds is the drift. The delays are those from the reference as it
came, whatever the echo filter makes of it, so what is measured does not depend on how it is obeyed: nothing
can run away, also where the reference cannot be read any earlier or later and nobody obeys.
"""

from __future__ import annotations

from collections import deque

import numpy as np

MOST_PPM = 300.0  # crystals differ by 100 ppm at most; more is a wrong estimate
_NOTABLE_PPM = 5.0  # below this the filter follows by itself, and reading between samples is not worth it
_LOOKS = 24  # that the line goes through: 6 s of playing
_FEW = 5  # of which at least there must be so many: a second lies between the first and the last
_CERTAIN = 4.0  # standard errors of the slope by which it must differ from none to be followed
_ASTRAY = 1.5  # samples from the line at which a delay is another one's


class DriftTracker:
    """``ppm``: by how much the delay grows, in samples a million samples; who reads the reference obeys."""

    def __init__(self) -> None:
        self._line: deque[tuple[float, float]] = deque(maxlen=_LOOKS)  # moments, and the delay then
        self.reset()

    def reset(self) -> None:
        self.ppm = 0.0
        self._following = False  # once begun it goes on: switching would move the delay by part of a sample
        self._astray: tuple[float, float] | None = None
        self._line.clear()

    @property
    def skew(self) -> float:
        """Growth of the delay in samples a sample; 0 as long as it is too small to matter."""
        return self.ppm * 1e-6 if self._following else 0.0

    def accept(self, at: float, delay: float) -> None:
        """Once a look: the moment, in samples since the start, and the delay that was found.

        A delay beside the line is an error, unless the next one says the same: then it has jumped.
        """
        if self._line and not self._continues(self._line[-1], at, delay):
            astray, self._astray = self._astray, (at, delay)
            if astray is None or not self._continues(astray, at, delay):
                return
            self._line.clear()
            self._line.append(astray)
        self._astray = None
        self._line.append((at, delay))
        if len(self._line) >= _FEW:
            self._fit()

    def _continues(self, before: tuple[float, float], at: float, delay: float) -> bool:
        return abs(delay - before[1] - self.ppm * 1e-6 * (at - before[0])) <= _ASTRAY

    def _fit(self) -> None:
        at, delays = np.array(self._line).T
        at = at - at.mean()
        spread = float(at @ at)
        slope = float(at @ delays) / spread
        rest = delays - delays.mean() - slope * at
        error = float(np.sqrt(rest @ rest / (len(at) - 2) / spread))
        self._following |= abs(slope) > max(_NOTABLE_PPM * 1e-6, _CERTAIN * error)
        self.ppm = float(np.clip(1e6 * slope, -MOST_PPM, MOST_PPM))
