"""The channels of one source, watched while it runs (see cosyd.array.health)."""

from __future__ import annotations

import numpy as np

from cosyd.array.faults import Fault
from cosyd.array.geometry import Geometry
from cosyd.array.health import ChannelWatch
from cosyd.config.schema import SourceConfig
from cosyd.frontend.pcm import Frames, to_float
from cosyd.spec import AudioSpec


def watched_channels(source: SourceConfig, spec: AudioSpec) -> tuple[tuple[int, ...], Geometry | None]:
    """Which channels are judged, those of the microphones, and the geometry of an array.

    What the device plays (references) may be silent, and two of them the same.
    """
    if source.array is not None:
        geometry = Geometry.of(source.array)
        return geometry.channels, geometry
    mapped = range(spec.channels) if source.channel_map is None else source.channel_map
    return tuple(channel for channel in mapped if channel < spec.channels), None


class ChannelCheck:
    """Takes device frames; ``changed`` until it is read: the faults are others than before."""

    def __init__(self, source: SourceConfig, spec: AudioSpec) -> None:
        channels, geometry = watched_channels(source, spec)
        self._watch = ChannelWatch(spec.rate_hz, channels, geometry)
        self._changed = False

    @property
    def faults(self) -> tuple[Fault, ...]:
        return self._watch.faults

    def accept(self, frames: Frames) -> None:
        """Device frames [n, channels] that follow those before."""
        if not self._watch.passes(len(frames)):
            sound = to_float(frames)
            if frames.dtype.kind == "f":  # a driver's NaN is no sound, and no reason to stop
                sound = np.clip(np.nan_to_num(sound), -1, 1)
            self._changed |= self._watch.accept(sound)

    def restart(self) -> None:
        """The next frames do not follow those before."""
        self._watch.restart()

    def take_change(self) -> bool:
        """Whether the faults have changed since this was asked."""
        changed, self._changed = self._changed, False
        return changed
