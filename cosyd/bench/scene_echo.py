"""A loudspeaker in a scene: what the device plays, and how it comes back to its microphones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosyd.array.echo_reference import ReferenceLine
from cosyd.bench.speech import Audio
from cosyd.spec import FRAME

Channels = NDArray[np.float32]  # [n, channels]

PEAK = 0.5  # of what is played, in the reference channel
_PIECE = 4_096  # samples read at a time where clocks differ
_DRIVE = 6.0  # of a loudspeaker that distorts: its limit is at a sixth of full scale


@dataclass(frozen=True)
class Loudspeaker:
    """``audio`` is played from the scene's beginning on, and is its reference as it is.

    The echo comes ``delay_ms`` later than sound does on its way, from ``jump_s`` on ``jump_ms`` later still;
    the playback clock is fast by ``drift_ppm``. ``echo_db``: the echo's level at the first microphone against
    the talkers', or, where nobody talks, against -20 dBFS.
    """

    audio: Audio
    azimuth_deg: float = 30.0
    elevation_deg: float = -20.0
    distance_m: float = 0.15
    echo_db: float = 0.0
    delay_ms: float = 0.0
    jump_ms: float = 0.0
    jump_s: float = 6.0
    drift_ppm: float = 0.0
    distorts: bool = False

    def played(self, length: int) -> Audio:
        """The reference [length]: silence where nothing is played any more."""
        sound = self.audio[:length] * np.float32(PEAK / max(float(np.abs(self.audio).max(initial=0.0)), 1e-9))
        return np.pad(sound, (0, length - len(sound))).astype(np.float32)

    def emitted(self, length: int) -> Audio:
        """What leaves the loudspeaker."""
        played = self.played(length)
        return np.tanh(_DRIVE * played).astype(np.float32) / np.float32(_DRIVE) if self.distorts else played

    def late(self, echo: Channels) -> Channels:
        """The echo as the microphones would hear it at once, as late as it is."""
        late = _later(echo, self.delay_ms)
        if self.jump_ms:
            at = round(self.jump_s * FRAME.rate_hz)
            late = np.concatenate((late[:at], _later(late, self.jump_ms)[at:]))
        return _drifting(late, self.drift_ppm) if self.drift_ppm else late

    def truth(self) -> dict[str, float | bool]:
        """Where it is and what is done to its sound."""
        names = (
            "azimuth_deg", "elevation_deg", "distance_m", "echo_db", "delay_ms", "jump_ms", "jump_s",
            "drift_ppm", "distorts",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def _later(sound: Channels, ms: float) -> Channels:
    samples = round(ms * FRAME.rate_hz / 1000)
    if samples < 0:
        return np.pad(sound[-samples:], ((0, -samples), (0, 0)))
    return np.pad(sound, ((samples, 0), (0, 0)))[: len(sound)]


def _drifting(sound: Channels, ppm: float) -> Channels:
    ratio = 1 + ppm * 1e-6
    line = ReferenceLine(sound.shape[1], len(sound))
    line.write(np.ascontiguousarray(sound.T))
    places = range(0, len(sound), _PIECE)
    pieces = [line.read(at * ratio, min(_PIECE, len(sound) - at), ratio) for at in places]
    return np.ascontiguousarray(np.concatenate(pieces, axis=1).T)
