"""Voices over time: which peaks of the steered power belong together, who is there, who speaks.

Each voice is a direction on the unit sphere with a velocity, in a Kalman filter that is the same along all
axes. A peak near a voice is a measurement of it. The greatest peak, if it is near nobody, begins a voice on
trial, which becomes one by being the greatest again and again, or goes away: of two who speak at once each is
the louder one in some hops, an echo from a wall is not. Voices are kept through silence, and forgotten when
nothing came from there for long. Everything counts heard time: where nobody speaks nothing is known, and
nothing moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosyd.array.geometry import Vectors, between

GATE_DEG = 18.0  # a peak this near to a voice is its: two people stand further apart, errors are smaller
TRIALS = 12  # voices on trial at a time: more than peaks in a row of hops that have nothing in common
FORGET_S = 20.0  # after which a voice that is not heard is forgotten; the next is a new one
BIRTH = 2.0  # log-odds at which a voice on trial is one: about 0.15 s of a clear voice
DEATH = -2.0
MOST = 6.0  # log-odds; what is certain must be able to change
MISS = 0.12  # log-odds a hop that a voice on trial loses when others are heard
FLOOR = 0.12  # of salience: what reverberation and noise reach by chance
GAIN = 2.0  # log-odds that a peak of salience FLOOR + 1 would give
TURN_DEG = 40.0  # typical change of velocity, degrees/s in a second: someone starts or stops walking
NOISE_DEG = 6.0  # typical error of one clear peak
AMONG = 0.5  # share of the greatest peak from which one is of somebody who speaks too
SLOWDOWN_S = 0.7  # people who walk stop again
ACTIVE_S = 0.15  # memory of who speaks just now


@dataclass(frozen=True)
class Peak:
    """A direction (unit vector [3]) from which much comes. ``salience``: how much, 1 is all; ``share``: as a
    part of the greatest peak's."""

    direction: Vectors
    salience: float
    share: float = 1.0


@dataclass(eq=False)
class Track:
    """One voice. ``odds``: log-odds that it is one. ``activity``: 0..1, how much it speaks just now."""

    number: int
    direction: Vectors
    velocity: Vectors
    variance: tuple[float, float, float]  # of place, of place and velocity together, of velocity; rad, s
    odds: float
    confirmed: bool = False
    activity: float = 0.0
    unheard_s: float = 0.0

    @property
    def confidence(self) -> float:
        """0..1: that someone is there, and speaks from there just now."""
        return self.activity / (1 + math.exp(-self.odds))


class Tracker:
    """``most``: voices at a time. Not more than that are confirmed; the weakest goes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._next = 1
        self.tracks: list[Track] = []

    def reset(self) -> None:
        """Forget everybody. Numbers go on: a number means one voice only."""
        self.tracks.clear()

    @property
    def voices(self) -> list[Track]:
        """Those that are more than a trial."""
        return [track for track in self.tracks if track.confirmed]

    def silence(self, seconds: float) -> None:
        """Nobody speaks: nothing moves, time goes on."""
        for track in self.tracks:
            track.unheard_s += seconds
            track.activity *= math.exp(-seconds / ACTIVE_S)
        self.tracks = [t for t in self.tracks if t.unheard_s < FORGET_S and (t.confirmed or t.unheard_s < 1)]

    def hear(self, peaks: Sequence[Peak], seconds: float) -> None:
        """A stretch in which someone speaks, and the peaks of its power, the greatest first."""
        for track in self.tracks:
            _predict(track, seconds)
        free = list(self.tracks)
        for peak in peaks:
            near = _nearest(free, peak)
            if near is not None:
                free.remove(near)
                self._measured(near, peak, seconds)
            elif peak.share == 1.0 and _nearest(self.tracks, peak) is None:
                self._try(peak)
        for track in free:
            self._missed(track, seconds)
        self._settle()

    def _measured(self, track: Track, peak: Peak, seconds: float) -> None:
        _correct(track, peak)
        share = 1 - math.exp(-seconds / ACTIVE_S)
        speaks = max(0.0, (peak.share - AMONG) / (1 - AMONG))
        track.activity += share * (speaks - track.activity)
        if peak.share == 1.0:
            track.odds = min(MOST, track.odds + GAIN * (peak.salience - FLOOR))
            track.unheard_s = 0.0
        elif not track.confirmed:
            track.odds -= MISS

    def _missed(self, track: Track, seconds: float) -> None:
        track.activity *= math.exp(-seconds / ACTIVE_S)
        track.unheard_s += seconds
        if track.unheard_s > ACTIVE_S:
            track.velocity = np.zeros(
                3
            )  # nobody knows whether it walks on; where it was heard is the best guess
        if not track.confirmed:
            track.odds -= MISS

    def _try(self, peak: Peak) -> None:
        trials = [track for track in self.tracks if not track.confirmed]
        if len(trials) >= TRIALS:
            self.tracks.remove(min(trials, key=lambda track: track.odds))
        spread = math.radians(NOISE_DEG) ** 2
        still = math.radians(TURN_DEG) ** 2 / 4
        odds = GAIN * (peak.salience - FLOOR)
        self.tracks.append(Track(0, peak.direction, np.zeros(3), (spread, 0.0, still), odds))

    def _settle(self) -> None:
        """Births, deaths, and no more voices than are allowed."""
        for track in self.tracks:
            if not track.confirmed and track.odds >= BIRTH:
                track.confirmed, track.number = True, self._next
                self._next += 1
        self.tracks = [t for t in self.tracks if t.odds > DEATH and t.unheard_s < FORGET_S]
        self._join()
        voices = sorted(self.voices, key=lambda track: track.unheard_s)
        for track in voices[self._most :]:
            self.tracks.remove(track)

    def _join(self) -> None:
        """Two that have come together are one: the older."""
        for older in sorted(self.tracks, key=lambda track: (not track.confirmed, track.number)):
            for other in [t for t in self.tracks if t is not older]:
                same = between(older.direction, other.direction) < GATE_DEG / 2
                if (
                    same
                    and older in self.tracks
                    and (older.confirmed, -older.number)
                    >= (
                        other.confirmed,
                        -other.number,
                    )
                ):
                    self.tracks.remove(other)


def _nearest(tracks: Sequence[Track], peak: Peak) -> Track | None:
    """The voice, else the trial, that the peak can be of."""
    near = [(not t.confirmed, between(t.direction, peak.direction), i) for i, t in enumerate(tracks)]
    within = [entry for entry in near if entry[1] < GATE_DEG]
    return tracks[min(within)[2]] if within else None


def _predict(track: Track, seconds: float) -> None:
    """Constant velocity with random changes, slowing down; back onto the sphere."""
    a, b, c = track.variance
    q = math.radians(TURN_DEG) ** 2
    track.variance = (
        a + seconds * (2 * b + seconds * c) + q * seconds**3 / 3,
        b + seconds * c + q * seconds**2 / 2,
        c * math.exp(-2 * seconds / SLOWDOWN_S) + q * seconds,
    )
    track.velocity = track.velocity * math.exp(-seconds / SLOWDOWN_S)
    moved = track.direction + seconds * track.velocity
    track.direction = moved / np.linalg.norm(moved)


def _correct(track: Track, peak: Peak) -> None:
    a, b, c = track.variance
    noise = math.radians(NOISE_DEG) ** 2 * (1 / max(peak.salience, FLOOR)) ** 2 / 4
    gain, drag = a / (a + noise), b / (a + noise)
    error = peak.direction - track.direction
    track.variance = (a * (1 - gain), b * (1 - gain), c - drag * b)
    direction = track.direction + gain * error
    track.direction = direction / np.linalg.norm(direction)
    velocity = track.velocity + drag * error
    track.velocity = velocity - (velocity @ track.direction) * track.direction
