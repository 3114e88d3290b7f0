"""Plane waves as microphones hear them, exactly, and noise from all around."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.array.geometry import Geometry, unit
from cosyd.config.schema import ArrayConfig
from cosyd.spec import FRAME


def geometry(name: str, **more: object) -> Geometry:
    return Geometry.of(ArrayConfig(geometry=name, **more))  # type: ignore[arg-type]


def plane_wave(
    array: Geometry, signal: NDArray[np.float32], azimuth: float, elevation: float = 0.0
) -> NDArray[np.float32]:
    """[n] -> [microphones, n], delayed in the frequency domain (circularly)."""
    spectrum = np.fft.rfft(signal)
    frequencies = np.fft.rfftfreq(len(signal), 1 / FRAME.rate_hz)
    phasors = array.steering(unit(azimuth, elevation)[None], frequencies)[0]
    return np.fft.irfft(spectrum[:, None] * phasors, len(signal), axis=0).T.astype(np.float32)


def white(blocks: int, seed: int = 0, level: float = 0.1) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    return (level * rng.standard_normal(blocks * FRAME.block)).astype(np.float32)


def spectra_blocks(x: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """[rows, n] in blocks."""
    return [x[:, i : i + FRAME.block] for i in range(0, x.shape[1], FRAME.block)]
