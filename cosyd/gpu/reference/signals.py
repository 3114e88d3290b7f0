"""Resampling with DC removal, log-mel features and level statistics in float64, one stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.resample import design
from cosyd.gpu.mel import MelDesign
from cosyd.spec import FRAME

Array = NDArray[Any]


def resample(x: Array, rate_in: int, outputs: int, lead: int = 0) -> Array:
    """Outputs -lead .. outputs - lead of mono ``x``; what lies before its first sample equals that sample.

    Needs enough of ``x`` for the last output's whole filter.
    """
    taps = design(rate_in, FRAME.rate_hz).astype(np.float64)
    width, phases = taps.shape[1], len(taps) - 1
    before = width // 2 - (width > 1)
    common = int(np.gcd(rate_in, FRAME.rate_hz))
    up, down = FRAME.rate_hz // common, rate_in // common
    result = np.empty(outputs)
    for i in range(outputs):
        base, rest = divmod((i - lead) * down, up)
        phase = (2 * rest * phases + up) // (2 * up)
        index = np.maximum(np.arange(base - before, base - before + width), 0)
        result[i] = x[index] @ taps[phase]
    return result


def remove_dc(x: Array, pole: float) -> Array:
    """y[n] = x[n] - x[n-1] + pole y[n-1]; the sample before the first equals the first."""
    y = np.empty(len(x))
    before, last = x[0], 0.0
    for n, value in enumerate(x):
        last = value - before + pole * last
        before = value
        y[n] = last
    return y


def log_mel(x: Array, design: MelDesign) -> Array:
    """All frames [n, bins] that are complete within ``x``; the beginning is mirrored, the end is not."""
    frames = []
    reach = design.reach
    for f in range(0 if len(x) < reach else (len(x) - reach) // design.shift + 1):
        index = np.arange(f * design.shift + reach - design.length, f * design.shift + reach)
        index = np.where(index < 0, -index - design.mirror_edge, index)
        frames.append(_frame(x[index].astype(np.float64), design))
    return np.array(frames).reshape(-1, design.bins)


def _frame(v: Array, design: MelDesign) -> Array:
    if design.preemphasis:
        v = v - v.mean()
        v = v - design.preemphasis * np.concatenate((v[:1], v[:-1]))
    power = np.abs(np.fft.rfft(v * design.window(), design.fft)) ** 2
    mel = np.maximum(design.bank() @ power[: design.bank().shape[1]], design.floor)
    return np.asarray(np.log(mel) if design.natural else np.log10(mel))


def statistics(x: Array, silence: float) -> Array:
    """x [frames, channels] in ±1 -> [channels, 4]: sum of squares, peak, samples at full scale, silent."""
    x = x.astype(np.float64)
    a = np.abs(x)
    full = (a >= 1 - 2.0**-15).sum(axis=0)
    return np.stack(((x**2).sum(axis=0), a.max(axis=0), full, (a < silence).sum(axis=0)), axis=1)
