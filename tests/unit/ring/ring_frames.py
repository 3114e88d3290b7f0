"""Frames for the tests of the ring."""

from __future__ import annotations

import numpy as np

from cosyd.spec import AudioSpec, SampleFormat

MONO = AudioSpec(16_000, 1, SampleFormat.S16)


def ramp(first: int, frames: int) -> np.ndarray:
    """Mono frames that carry their own index."""
    return np.arange(first, first + frames).astype("<i2").reshape(-1, 1)


def random_frames(spec: AudioSpec, frames: int) -> bytes:
    return np.random.default_rng(1).bytes(frames * spec.frame_bytes)
