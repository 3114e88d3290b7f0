"""Device frames to one channel of float32 in ±1.

Frames are [n, channels] of int16, int32 or float32, or, for packed 24 bit, uint8 [n, channels, 3]. Only the
mapped channels are touched, one after the other and sample by sample, so that the result does not depend on
how the stream is cut into pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import UnsupportedFormat
from cosyd.frontend.stage import Samples

Frames = NDArray[Any]

_SCALE_16 = np.float32(2.0**-15)
_SCALE_32 = np.float32(2.0**-31)


def to_float(channel: Frames) -> Samples:
    """One channel ([n], or [n, 3] bytes for packed 24 bit) as float32 in ±1; floats stay as they are."""
    if channel.dtype == np.int16:
        return np.multiply(channel, _SCALE_16, dtype=np.float32)
    if channel.dtype == np.int32:
        return channel.astype(np.float32) * _SCALE_32
    if channel.dtype == np.uint8:
        return _from_24(channel).astype(np.float32) * _SCALE_32
    return channel.astype(np.float32)


def _from_24(channel: Frames) -> NDArray[np.int32]:
    """Three bytes, least significant first, into the upper 24 bits of an int32."""
    wide = np.zeros((*channel.shape[:-1], 4), np.uint8)
    wide[..., 1:] = channel
    return wide.view("<i4")[..., 0]


class Mixer:
    """Selects channels and makes one of them. ``nonfinite`` counts samples that were NaN or infinite."""

    def __init__(
        self, channels: int, channel_map: Sequence[int] | None = None, mix: Literal["first", "mean"] = "mean"
    ) -> None:
        """``channel_map``: from 0, None for all. Raises UnsupportedFormat for a channel that is not there."""
        mapped = tuple(range(channels)) if channel_map is None else tuple(channel_map)
        beyond = [channel for channel in mapped if not 0 <= channel < channels]
        if beyond or not mapped:
            raise UnsupportedFormat(
                f"channel_map {list(mapped)}: the source has channels 0 to {channels - 1}; correct the map"
            )
        self._mapped = mapped[:1] if mix == "first" else mapped
        self._share = np.float32(1 / len(self._mapped))
        self.nonfinite = 0

    def __call__(self, frames: Frames) -> Samples:
        """[n, channels] -> float32 [n]; NaN and infinities become 0."""
        first, *others = self._mapped
        mono = self._channel(frames, first)
        for channel in others:
            mono += self._channel(frames, channel)
        if others:
            mono *= self._share
        return mono

    def _channel(self, frames: Frames, index: int) -> Samples:
        samples = to_float(frames[:, index])
        if frames.dtype.kind == "f":
            bad = ~np.isfinite(samples)
            if bad.any():
                self.nonfinite += int(bad.sum())
                samples[bad] = 0
        return samples
