"""From spectra to voices: steered power, smoothed, its peaks, the tracker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosyd.array.beams import Matrix
from cosyd.array.geometry import Geometry, Vectors
from cosyd.array.grid import SPACE_DEG, Grid, make_grid
from cosyd.array.onset import Onsets
from cosyd.array.stft import Spectra
from cosyd.array.tracker import FLOOR, Peak, Track, Tracker
from cosyd.array.whitened import Power, Whitened
from cosyd.spec import FRAME

# How much there is to go by is counted in hops' worth of direct sound in all bins: speech in a quiet room has
# 5 to 10 of them a second, its reverberation hardly any.
LOOK_HOPS = 0.1  # after so much peaks are looked for again
LATEST_HOPS = 12  # ... or after 0.1 s: beside a loud noise there is little to go by
FIRST_HOPS = 2  # ... but not before 16 ms
SMOOTH_HOPS = 12.0  # over so much what is heard is smoothed: some words of who stands
SECOND = 0.4  # of the greatest peak's salience: what a second voice's must reach
_HOP_S = FRAME.hop / FRAME.rate_hz


class Locator:
    """Voices around one array. ``talkers``: at most so many."""

    def __init__(self, geometry: Geometry, space: bool, talkers: int) -> None:
        self.grid = make_grid(geometry, space)
        self._space = space
        self._white = Whitened(geometry, self.grid)
        self._talkers = talkers
        self._tracker = Tracker(talkers)
        self._onsets = Onsets()
        self._since, self._new = 0, 0.0  # hops since peaks were looked for, and what came in them
        self._forget()

    def _forget(self) -> None:
        self._smooth: Power | None = None  # what was heard, and the weight that is in it
        self._weight = 0.0

    @property
    def voices(self) -> list[Track]:
        return self._tracker.voices

    def reset(self) -> None:
        self._tracker.reset()
        self._onsets.reset()
        self._since, self._new = 0, 0.0
        self._forget()

    def silence(self, hops: int) -> None:
        """Nobody speaks in these hops."""
        self._tracker.silence(hops * _HOP_S)
        self._onsets.fade(hops)
        self._forget()

    def adapt(self, noise: Matrix) -> None:
        """The noise around has this covariance [BINS, microphones, microphones] from now on."""
        self._white.adapt(noise)
        self._forget()

    def hear(self, spectra: Spectra, share: NDArray[np.float32] | None = None) -> None:
        """Someone speaks: spectra [hops, microphones, BINS]; ``share`` [hops, BINS] of them is speech.

        What is remembered fades by what is new, not by time: reverberation, which has little new, changes it
        little.
        """
        heard, weights = self._white.sums(spectra, share, self._onsets(spectra))
        for now, weight in zip(heard, weights, strict=True):
            worth = float(weight) / self._white.bins
            keep = np.float32(np.exp(-worth / SMOOTH_HOPS))
            self._smooth = now if self._smooth is None else keep * self._smooth + now
            self._weight = float(keep * self._weight + weight)
            self._since, self._new = self._since + 1, self._new + worth
            if self._due:
                self._look()

    @property
    def _due(self) -> bool:
        if self._since < FIRST_HOPS or self._weight <= 0:
            return False
        return self._new >= LOOK_HOPS or self._since >= LATEST_HOPS

    def _look(self) -> None:
        assert self._smooth is not None, "nothing was heard"
        power = self._white.power(self._smooth / np.float32(self._weight))
        self._tracker.hear(self.peaks(power), self._since * _HOP_S)
        self._since, self._new = 0, 0.0

    def average(self, spectra: Spectra) -> Power:
        """[hops, microphones, BINS] -> power [directions] of the grid, the mean over hops, all bins alike."""
        return self._white.average(spectra)

    def peaks(self, power: Power) -> list[Peak]:
        """The greatest local maxima of power [directions], interpolated."""
        around = power[self.grid.neighbours]
        tops = np.flatnonzero((power >= around.max(axis=1)) & (power > FLOOR))
        tops = tops[np.argsort(power[tops])[::-1][: self._talkers]]
        place = _summit if self._space else _between_three
        shares = [float(power[top] / power[tops[0]]) for top in tops]
        return [
            Peak(place(self.grid, power, int(top)), float(power[top]), share)
            for top, share in zip(tops, shares, strict=True)
            if share >= SECOND
        ]


def _between_three(grid: Grid, power: Power, top: int) -> Vectors:
    """The vertex of the parabola through a direction of the plane and its two neighbours."""
    left, right = (int(index) for index in grid.neighbours[top][:2])
    middle = grid.directions[top]
    if left == right or top in (left, right):  # the end of a half plane
        return np.asarray(middle)
    a, b, c = (float(power[index]) for index in (left, top, right))
    curve = a - 2 * b + c
    shift = 0.5 * (a - c) / curve if curve < 0 else 0.0
    towards = grid.directions[right if shift > 0 else left]
    mixed = middle + abs(shift) * (towards - middle)
    return np.asarray(mixed / np.linalg.norm(mixed))


def _summit(grid: Grid, power: Power, top: int) -> Vectors:
    """The summit of the paraboloid through a direction in space and its neighbours, on the tangent plane."""
    middle = grid.directions[top]
    near = np.append(grid.neighbours[top], top)
    frame = np.linalg.svd(middle[None])[2][1:]  # two directions across
    x, y = frame @ (grid.directions[near] - middle).T
    shape = np.stack((np.ones_like(x), x, y, x * x / 2, x * y, y * y / 2), axis=1)
    _, slope_x, slope_y, a, b, c = np.linalg.lstsq(shape, power[near].astype(np.float64), rcond=None)[0]
    if a >= 0 or a * c - b * b <= 0:  # no summit
        return np.asarray(middle)
    shift = -np.linalg.solve([[a, b], [b, c]], [slope_x, slope_y])
    shift *= min(1.0, np.radians(SPACE_DEG) / max(float(np.linalg.norm(shift)), 1e-12))
    moved = middle + shift @ frame
    return np.asarray(moved / np.linalg.norm(moved))


def loudest(voices: Sequence[Track]) -> Track | None:
    """Who speaks most just now."""
    return max(voices, key=lambda track: track.confidence, default=None)
