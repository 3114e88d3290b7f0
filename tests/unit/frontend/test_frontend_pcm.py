"""Device frames to one channel."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.errors import UnsupportedFormat
from cosyd.frontend.pcm import Mixer, to_float

VALUES = np.array([0.0, 0.5, -0.25, -1.0, 0.75])


def encode(values: np.ndarray, kind: str) -> np.ndarray:
    """Float samples in a device's format; the trailing axis of s24 are its bytes."""
    if kind == "f32":
        return values.astype(np.float32)
    bits = int(kind[1:])
    whole = np.clip(np.round(values * 2.0 ** (bits - 1)), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if kind == "s24":
        return (whole.astype("<i4")[..., None].view(np.uint8))[..., :3].copy()
    return whole.astype({"s16": np.int16, "s32": np.int32}[kind])


@pytest.mark.parametrize("kind", ["s16", "s24", "s32", "f32"])
def test_every_format_gives_the_same_samples(kind: str) -> None:
    got = to_float(encode(VALUES, kind))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, VALUES, atol=1e-9)


@pytest.mark.parametrize("kind", ["s16", "s24", "s32"])
def test_the_smallest_step_survives(kind: str) -> None:
    step = 2.0 ** -(int(kind[1:]) - 1)
    np.testing.assert_allclose(to_float(encode(np.array([step, -step]), kind)), [step, -step], rtol=1e-6)


@pytest.mark.parametrize("kind", ["s16", "s24", "s32", "f32"])
def test_mean_and_first_of_mapped_channels(kind: str) -> None:
    frames = encode(np.array([[0.5, 0.25, -0.75, 0.125]] * 3), kind)
    np.testing.assert_allclose(Mixer(4)(frames), [0.03125] * 3, rtol=1e-6)
    np.testing.assert_allclose(Mixer(4, [1, 2])(frames), [-0.25] * 3, rtol=1e-6)
    np.testing.assert_allclose(Mixer(4, [2, 1], "first")(frames), [-0.75] * 3, rtol=1e-6)


def test_a_channel_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnsupportedFormat, match=r"channel_map \[1, 4\]: the source has channels 0 to 3"):
        Mixer(4, [1, 4])
    with pytest.raises(UnsupportedFormat):
        Mixer(4, [])


def test_not_a_number_becomes_silence_and_is_counted() -> None:
    frames = np.array([[np.nan, 1], [0.5, np.inf], [-np.inf, 0.25]], np.float32)
    mixer = Mixer(2)
    np.testing.assert_array_equal(mixer(frames), [0.5, 0.25, 0.125])
    assert mixer.nonfinite == 3
    assert np.isnan(frames[0, 0])  # the ring's own memory is not written to
