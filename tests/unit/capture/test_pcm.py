"""Samples of files as the ring carries them."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.capture.pcm import encode, natural_format, silence_bad
from cosyd.spec import SampleFormat

VALUES = np.array([[0.0, -1.0], [0.5, 0.999969482421875], [-0.25, 2.0**-15]])  # exact in 16 bits
AS = {
    "int16": (VALUES * 2**15).astype(np.int16),
    "int32": (VALUES * 2**31).astype(np.int32),
    "float32": VALUES.astype(np.float32),
}


def decoded(data: np.ndarray, sample_format: SampleFormat) -> np.ndarray:
    if sample_format is SampleFormat.S24:
        assert data.dtype == np.uint8 and data.shape[-1] == 3
        wide = np.zeros((*data.shape[:-1], 4), np.uint8)
        wide[..., 1:] = data
        return wide.view("<i4")[..., 0] / 2**31
    if sample_format is SampleFormat.F32:
        return data.astype(float)
    return data / -float(np.iinfo(data.dtype).min)


@pytest.mark.parametrize("source", list(AS))
@pytest.mark.parametrize("target", list(SampleFormat))
def test_every_conversion_keeps_sixteen_bits(source, target):
    data = encode(AS[source], target)
    assert data.nbytes == VALUES.size * target.sample_bytes
    assert data.flags.c_contiguous
    np.testing.assert_array_equal(decoded(data, target), VALUES)


def test_floats_beyond_full_scale_are_clipped():
    loud = np.array([[1.5, -1.5]], np.float32)
    np.testing.assert_array_equal(encode(loud, SampleFormat.S16), [[32767, -32768]])


def test_no_number_becomes_silence_and_is_counted():
    samples = np.array([[np.nan, 0.5], [np.inf, -np.inf]], np.float32)
    clean, bad = silence_bad(samples)
    assert bad == 3
    np.testing.assert_array_equal(clean, [[0, 0.5], [0, 0]])
    assert silence_bad(clean) == (clean, 0) or silence_bad(clean)[1] == 0


def test_natural_formats():
    assert natural_format("PCM_16") is SampleFormat.S16
    assert natural_format("PCM_24") is SampleFormat.S32
    assert natural_format("DOUBLE") is SampleFormat.F32
    assert natural_format("VORBIS") is SampleFormat.F32
    assert natural_format("ULAW") is SampleFormat.S16
