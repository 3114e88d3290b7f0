"""Samples of a file in the form in which a ring carries them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.spec import SampleFormat

# What libsndfile decodes without loss into a wider type than 16 bits. All else fits into S16.
_WIDE = {"PCM_24", "PCM_32", "ALAC_20", "ALAC_24", "ALAC_32", "DWVW_24"}
_FLOAT = {"FLOAT", "DOUBLE", "VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III"}


def natural_format(subtype: str) -> SampleFormat:
    """The narrowest format that holds all that a file of libsndfile's ``subtype`` has."""
    if subtype in _FLOAT:
        return SampleFormat.F32
    return SampleFormat.S32 if subtype in _WIDE else SampleFormat.S16


def silence_bad(samples: NDArray[np.float32]) -> tuple[NDArray[np.float32], int]:
    """NaN and infinity become 0; how many there were."""
    good = np.isfinite(samples)
    bad = good.size - int(np.count_nonzero(good))
    return (samples, 0) if bad == 0 else (np.where(good, samples, np.float32(0)), bad)


def encode(samples: NDArray[Any], target: SampleFormat) -> NDArray[Any]:
    """``samples`` [n, channels] int16, int32 or float32 (±1) as ``target``; S24 is uint8 [n, channels, 3].

    Narrowing cuts integers off and clips floats.
    """
    if target is SampleFormat.F32:
        return _to_float(samples)
    if samples.dtype == np.float32:
        samples = _to_int32(samples)
    if target is SampleFormat.S16:
        return samples if samples.dtype == np.int16 else (samples >> 16).astype(np.int16)
    wide = samples if samples.dtype == np.int32 else samples.astype(np.int32) << 16
    return wide if target is SampleFormat.S32 else _packed(wide)


def _to_float(samples: NDArray[Any]) -> NDArray[np.float32]:
    if samples.dtype == np.float32:
        return samples
    return (samples / -float(np.iinfo(samples.dtype).min)).astype(np.float32)


def _to_int32(samples: NDArray[np.float32]) -> NDArray[np.int32]:
    scaled = np.rint(samples.astype(np.float64) * 2**31)
    return np.clip(scaled, -(2**31), 2**31 - 1).astype(np.int32)


def _packed(wide: NDArray[np.int32]) -> NDArray[np.uint8]:
    """The upper three bytes of each little-endian sample."""
    octets = np.ascontiguousarray(wide.astype("<i4")).view(np.uint8).reshape(*wide.shape, 4)
    return np.ascontiguousarray(octets[..., 1:])
