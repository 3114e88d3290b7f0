"""Are the channels in the order of the geometry, and do they come at the same time?

From each look at which one source dominates, the times of arrival at the microphones are measured (GCC-PHAT
of each pair). For plane waves they are the positions times the direction: what no direction explains is the
residual. An order of channels whose residual is far smaller than that of the configured one is the real one;
an arrival that is later than sound takes from one microphone to the other is a channel that is late.

A symmetric array looks the same after a turn or a reflection, so a rotated order shows only in sound from
a known direction: `cosyd array calibrate --from`.
"""

from __future__ import annotations

from collections import deque
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cosyd.array.faults import Fault
from cosyd.array.geometry import Geometry
from cosyd.config.arrays import SPEED_OF_SOUND

LOOKS = 24  # measurements that count, the newest: about a minute of speech
LEAST = 6  # from which on they are judged
SPAN_S = 2e-3  # longest difference of arrival that is looked for
_LOW_HZ, _HIGH_HZ = 200.0, 7_000.0
_FINE_HZ = 32_000  # rate at which correlations are looked at; a parabola finds the peak between its samples
_CLEAR = 0.12  # height of a correlation's peak, of 1, that speech near a microphone array reaches
_OFF_S = 30e-6  # residual beyond which something is wrong: half a sample at 16 kHz
_CLOSED_S = 60e-6  # by how much the arrivals of three pairs may miss adding up
_BETTER = 0.5  # of the configured order's residual that another one's must be
_LIKE = 1.3  # of the best order's residual: as good
_EARLY_S = 60e-6  # beyond what the distance allows, that makes a channel late


def arrivals(frames: NDArray[np.float32], geometry: Geometry, rate_hz: int) -> NDArray[np.float64] | None:
    """Seconds by which sound comes later to each microphone than to the first, from frames [n, microphones].

    None where no single source is clear.
    """
    n = len(frames)
    size = 1 << (2 * n - 1).bit_length()
    spectra = np.fft.rfft(frames * np.hanning(n)[:, None], size, axis=0)
    frequency = np.fft.rfftfreq(size, 1 / rate_hz)
    band = (frequency >= _LOW_HZ) & (frequency <= min(_HIGH_HZ, 0.45 * rate_hz))
    top = int(np.flatnonzero(band)[-1]) + 1
    white = np.where(band[:, None], spectra / np.maximum(np.abs(spectra), 1e-20), 0)[:top]
    fine = size * _FINE_HZ // rate_hz  # samples of a correlation at the fine rate
    late = np.zeros(len(geometry.pairs))
    for index, (i, j) in enumerate(geometry.pairs):
        correlation = np.fft.irfft(white[:, j] * np.conj(white[:, i]), fine) * (fine / (2 * band.sum()))
        found = _peak(correlation)
        if found is None:
            return None
        late[index] = found / _FINE_HZ
    return _from_first(late, geometry)


def _peak(correlation: NDArray[np.float64]) -> float | None:
    """Lag of the highest point within the span, in samples; None where nothing stands out."""
    reach = round(SPAN_S * _FINE_HZ)
    window = np.concatenate([correlation[-reach - 1 :], correlation[: reach + 2]])
    best = int(window[1:-1].argmax()) + 1
    before, top, after = window[best - 1 : best + 2]
    if top < _CLEAR:
        return None
    return best - reach - 1 + 0.5 * float((before - after) / (before - 2 * top + after))


def _from_first(late: NDArray[np.float64], geometry: Geometry) -> NDArray[np.float64] | None:
    """Arrivals at the microphones that explain those of the pairs; None where these contradict each other."""
    pairs = geometry.pairs
    matrix = np.zeros((len(pairs), geometry.microphones))
    rows = np.arange(len(pairs))
    matrix[rows, pairs[:, 1]], matrix[rows, pairs[:, 0]] = 1, -1
    solution = np.linalg.lstsq(matrix[:, 1:], late, rcond=None)[0]
    times = np.concatenate([[0.0], solution])
    return times if np.abs(matrix @ times - late).max() <= _CLOSED_S else None


class OrderJudge:
    """Collects arrivals; ``look`` tells what they say so far."""

    def __init__(self, geometry: Geometry, rate_hz: int) -> None:
        self._geometry = geometry
        self._rate_hz = rate_hz
        self._measured: deque[NDArray[np.float64]] = deque(maxlen=LOOKS)
        count = geometry.microphones
        self._orders = [
            tuple(range(count)),
            *(_swapped(count, i, j) for i, j in combinations(range(count), 2)),
        ]
        self._misfits = [_misfit(geometry.centred[list(order)]) for order in self._orders]
        self._distance = np.linalg.norm(geometry.centred[:, None] - geometry.centred[None], axis=2)

    def look(self, frames: NDArray[np.float32]) -> list[Fault]:
        """Frames [n, all channels] of one look -> faults that all looks together show."""
        times = arrivals(frames[:, list(self._geometry.channels)], self._geometry, self._rate_hz)
        if times is not None:
            self._measured.append(times)
        if len(self._measured) < LEAST:
            return []
        measured = np.array(self._measured)
        return self._late(measured) or self._swapped(measured)

    def _late(self, measured: NDArray[np.float64]) -> list[Fault]:
        """Channels that come later than the distance allows, in most looks."""
        excess = measured[:, :, None] - measured[:, None, :] - self._distance / SPEED_OF_SOUND
        often = np.median(excess, axis=0)  # [late, early]
        np.fill_diagonal(often, -1.0)
        if often.max() <= _EARLY_S:
            return []
        beyond = often > _EARLY_S
        # The odd one out is late for most of the others, or early (then all the others are late to it).
        late, early = beyond.sum(axis=1), beyond.sum(axis=0)
        channels = self._geometry.channels
        if late.max() >= early.max():
            odd, by, word = int(late.argmax()), float(often[int(late.argmax())].max()), "late"
        else:
            odd, by, word = int(early.argmax()), float(often[:, int(early.argmax())].max()), "early"
        message = f"channel {channels[odd]} is {word} by {by * 1e6:.0f} µs or more"
        return [Fault("late", (channels[odd],), message)]

    def _swapped(self, measured: NDArray[np.float64]) -> list[Fault]:
        """Two channels whose exchange explains what the configured order does not."""
        residual = [float(np.sqrt(np.square(measured @ misfit.T).mean())) for misfit in self._misfits]
        best = min(residual)
        if residual[0] < _OFF_S or best > _BETTER * residual[0]:
            return []
        likely = [order for order, r in zip(self._orders, residual, strict=True) if r <= _LIKE * best]
        channels = self._geometry.channels
        pairs = [[channels[i] for i, k in enumerate(order) if i != k] for order in likely]
        message = "channels " + ", or ".join(" and ".join(map(str, pair)) for pair in pairs) + " are swapped"
        return [Fault("swapped", tuple(pairs[0]), message)]


def _swapped(count: int, i: int, j: int) -> tuple[int, ...]:
    order = list(range(count))
    order[i], order[j] = j, i
    return tuple(order)


def _misfit(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matrix that leaves of arrivals [microphones] what no plane wave from anywhere makes."""
    count = len(positions)
    explained = np.concatenate([positions, np.ones((count, 1))], axis=1)  # a direction, and when it came
    return np.asarray(np.eye(count) - explained @ np.linalg.pinv(explained))
