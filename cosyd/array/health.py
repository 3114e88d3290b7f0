"""What is wrong with a device's channels, judged from what they carry while it runs.

A look takes half a second of frames; a fault counts when several looks in a row show it, and is over when as
many do not. What only sound from somewhere tells (swapped and late channels) is in ``health_order``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cosyd.array.faults import Fault
from cosyd.array.geometry import Geometry
from cosyd.array.health_order import OrderJudge

Frames = NDArray[np.float32]

LOOK_S = 0.5  # of frames in one look
PAUSE_S = 1.5  # between looks: what is wrong stays wrong
PERSISTENT = 3  # looks in a row that make or end a fault: 6 s
SILENT_DB = -90.0  # less than one step of 16 bits
HEARD_DB = -80.0  # a channel louder than this hears something
CLIPPED = 0.999  # of full scale
CLIPPED_SHARE = 1e-3  # of a look's samples at full scale: distortion that everyone hears
DC_LEAST = 0.01  # of full scale: -40 dB; converters without a fault are below -50
SAME = 1e-6  # power of the difference over the power, -60 dB: two converters never agree so well
UNEVEN_DB = 6.0  # microphones of one array are matched to 1 or 3 dB


def examine(frames: Frames, channels: Sequence[int], matched: bool) -> list[Fault]:
    """Faults of one look, float32 [n, all channels].

    ``channels``: those to judge; ``matched``: they are microphones of one kind.
    """
    x = frames[:, list(channels)].astype(np.float64)
    mean = x.mean(axis=0)
    x -= mean
    power = np.square(x).mean(axis=0)
    level = 10 * np.log10(power + 1e-20)
    faults = _silent(channels, level) + _clipped(channels, frames) + _dc(channels, mean)
    faults += _duplicates(channels, x, level)
    return faults + (_uneven(channels, level) if matched else [])


def _silent(channels: Sequence[int], level: NDArray[np.float64]) -> list[Fault]:
    if level.max(initial=SILENT_DB) < HEARD_DB:  # nobody hears anything: that is the room, or a mute switch
        return []
    dead = [c for c, db in zip(channels, level, strict=True) if db < SILENT_DB]
    return [Fault("silent", (c,), f"channel {c} is silent") for c in dead]


def _clipped(channels: Sequence[int], frames: Frames) -> list[Fault]:
    share = (np.abs(frames[:, list(channels)]) >= CLIPPED).mean(axis=0)
    loud = [(c, s) for c, s in zip(channels, share, strict=True) if s > CLIPPED_SHARE]
    return [Fault("clipped", (c,), f"channel {c} clips: {100 * s:.1f} % at full scale") for c, s in loud]


def _dc(channels: Sequence[int], mean: NDArray[np.float64]) -> list[Fault]:
    laden = [(c, m) for c, m in zip(channels, mean, strict=True) if abs(m) > DC_LEAST]
    return [Fault("dc", (c,), f"channel {c} has a constant part of {100 * m:+.1f} %") for c, m in laden]


def _duplicates(channels: Sequence[int], x: NDArray[np.float64], level: NDArray[np.float64]) -> list[Fault]:
    heard = [i for i, db in enumerate(level) if db > HEARD_DB]
    faults = []
    for i, j in combinations(heard, 2):
        a, b = x[:, i], x[:, j]
        if np.square(a - b * (a @ b) / (b @ b)).sum() < SAME * (a @ a):
            pair = (channels[i], channels[j])
            faults.append(Fault("duplicate", pair, f"channels {pair[0]} and {pair[1]} carry the same"))
    return faults


def _uneven(channels: Sequence[int], level: NDArray[np.float64]) -> list[Fault]:
    heard = level > SILENT_DB
    if heard.sum() < 3 or level.max() < HEARD_DB:
        return []
    off = level - np.median(level[heard])
    uneven = [(c, db) for c, db, on in zip(channels, off, heard, strict=True) if on and abs(db) > UNEVEN_DB]
    return [
        Fault(
            "gain", (c,), f"channel {c} is {abs(db):.0f} dB {'louder' if db > 0 else 'quieter'} than others"
        )
        for c, db in uneven
    ]


class ChannelWatch:
    """Judges the channels of one stream while it runs. With a ``geometry`` also their order and delays.

    ``channels``: those to judge, from 0.
    """

    def __init__(self, rate_hz: int, channels: Sequence[int], geometry: Geometry | None = None) -> None:
        self._channels = tuple(channels)
        self._geometry = geometry
        self._order = OrderJudge(geometry, rate_hz) if geometry and geometry.microphones > 2 else None
        self._look = round(LOOK_S * rate_hz)
        self._pause = round(PAUSE_S * rate_hz)
        self._seen: dict[tuple[str, tuple[int, ...]], int] = {}  # looks in a row with it, negative: without
        self._looks = 0
        self._known: dict[tuple[str, tuple[int, ...]], Fault] = {}
        self.restart()

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Those that stay, by channel."""
        return tuple(sorted(self._known.values(), key=lambda fault: (fault.channels, fault.code)))

    def restart(self) -> None:
        """The next frames do not follow those before."""
        self._pieces: list[Frames] = []
        self._held = 0
        self._waiting = 0

    def passes(self, frames: int) -> bool:
        """Whether it looks away from the next so many frames; then they need not be given to ``accept``."""
        if self._waiting <= 0:
            return False
        self._waiting -= frames
        return True

    def accept(self, frames: Frames) -> bool:
        """Float32 frames [n, all channels] without NaN.

        True when ``faults`` has changed, and once when there have been looks enough for a first judgement.
        """
        if self.passes(len(frames)):
            return False
        piece = frames[: self._look - self._held].copy()
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held < self._look:
            return False
        look = np.concatenate(self._pieces)
        self.restart()
        self._waiting = self._pause
        return self._judge(look)

    def _judge(self, look: Frames) -> bool:
        found = examine(look, self._channels, matched=self._geometry is not None)
        if self._order is not None and not found:  # a channel that is dead or doubled has no delay
            found = self._order.look(look)
        before = self.faults
        now = {(fault.code, fault.channels): fault for fault in found}
        for key in self._seen.keys() | now.keys():
            self._count(key, now.get(key))
        self._looks += 1
        return self.faults != before or self._looks == PERSISTENT

    def _count(self, key: tuple[str, tuple[int, ...]], fault: Fault | None) -> None:
        seen = self._seen.get(key, 0)
        seen = max(seen, 0) + 1 if fault else min(seen, 0) - 1
        self._seen[key] = seen
        if fault and (seen >= PERSISTENT) and key not in self._known:
            self._known[key] = fault
        elif seen <= -PERSISTENT:
            self._known.pop(key, None)
            del self._seen[key]
