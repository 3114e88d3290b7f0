"""Automatic gain for the recogniser's input: speech comes to one level, and never beyond full scale.

The level is measured where there is speech only, so that pauses do not pump noise up; the gain moves slowly
and evenly within a block. The limiter needs no delay: a block is there as a whole before its gain is chosen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.spec import FRAME

Samples = NDArray[np.float32]

SPEECH = 0.5  # probability of speech from which a block's level counts
RISE_DB_PER_S = 12.0  # a new, quieter talker is at the level within a few words
FALL_DB_PER_S = 60.0  # a louder one within a syllable
ACTIVE_DB = 20.0  # blocks that much below the loudest of late are pauses inside speech
PEAK = 0.95  # of full scale, that nothing exceeds
_REMEMBER_S = 3.0  # over which the level of speech is averaged
_FORGET_DB_PER_S = 3.0  # at which the loudest block of late fades


class GainControl:
    """One stream. ``level_db``: of speech, dBFS; ``most_db``: most gain, and most that is taken away."""

    def __init__(
        self, level_db: float, most_db: float, block: int = FRAME.block, rate_hz: int = FRAME.rate_hz
    ):
        self.settings = (level_db, most_db)
        self._level_db, self._most_db = level_db, most_db
        self._block_s = block / rate_hz
        self._ramp = np.arange(1, block + 1, dtype=np.float32) / block
        self.reset()

    def reset(self) -> None:
        """Nothing is known of the level."""
        self.gain_db = 0.0
        self._power = 0.0  # mean over speech; 0: none yet
        self._loudest_db = -200.0
        self._gain = np.float32(1)

    def process(self, block: Samples, speech: float) -> Samples:
        """float32 [block] -> the same with the gain; ``speech``: its probability."""
        if speech >= SPEECH:
            self._learn(float(np.mean(np.square(block, dtype=np.float64))))
        wanted = np.float32(10 ** (self.gain_db / 20))
        peak = float(np.abs(block).max(initial=0.0))
        limited = np.minimum(wanted, np.float32(PEAK / max(peak, 1e-9)))
        start = np.minimum(self._gain, limited) if peak * self._gain > PEAK else self._gain
        self._gain = limited
        return np.asarray(block * (start + (limited - start) * self._ramp), np.float32)

    def _learn(self, power: float) -> None:
        level = 10 * np.log10(power + 1e-20)
        self._loudest_db = max(level, self._loudest_db - _FORGET_DB_PER_S * self._block_s)
        if level < self._loudest_db - ACTIVE_DB:
            return
        share = 1 - np.exp(-self._block_s / _REMEMBER_S) if self._power else 1.0
        self._power += share * (power - self._power)
        wanted = self._level_db - 10 * np.log10(self._power + 1e-20)
        wanted = float(np.clip(wanted, -self._most_db, self._most_db))
        up, down = RISE_DB_PER_S * self._block_s, FALL_DB_PER_S * self._block_s
        self.gain_db += float(np.clip(wanted - self.gain_db, -down, up))
