"""Plane waves at an array, exact to a fraction of a sample."""

from __future__ import annotations

import numpy as np
from echo_scene import RATE, Real

from cosyd.array.geometry import Geometry, unit


def at_microphones(sound: Real, geometry: Geometry, azimuth_deg: float, rate_hz: int = RATE) -> Real:
    """``sound`` [n] from far away in that direction of the device, at each microphone [n, microphones]."""
    leads = geometry.leads(np.atleast_2d(unit(azimuth_deg)))[0]
    frequency = np.fft.rfftfreq(len(sound), 1 / rate_hz)
    turns = np.exp(2j * np.pi * frequency[:, None] * leads[None])
    return np.fft.irfft(np.fft.rfft(sound)[:, None] * turns, len(sound), axis=0).astype(np.float32)
