"""Silero as TensorRT takes it: what is fixed, which axes are free and how far. Moonshine: ``moonshine``.

DTLN is not here: the front end builds its two networks itself from the published weights (``frontend.dtln``),
for any number of streams and hops, and those compile as they are; the published first network does not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cosyd.engine.profiles import Profile
from cosyd.engine.rewrite import plain_network

MOST_STREAMS = 64
SILERO_WINDOW = 576  # samples: 64 heard before and 512 new
SILERO_RATE = np.array(16_000, np.int64)


def silero(path: Path, name: str = "silero-vad-6") -> bytes:
    """input [batch, 576], state [2, batch, 128] -> output, stateN; for 16 kHz, without the input ``sr``."""
    return plain_network(path, inputs={"sr": SILERO_RATE}, axes={"sequence": SILERO_WINDOW}, name=name)


SILERO_PROFILE = Profile.of({"batch": (1, 8, MOST_STREAMS)})
