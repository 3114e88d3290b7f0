"""Microphones made alike: the gains and delays that a calibration found are taken back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosyd.array.step import Samples
from cosyd.spec import FRAME

_TAPS = 32  # Kaiser-windowed sinc: within 0.1 dB up to 7 kHz
_BETA = 7.0
_CENTRE = _TAPS // 2 - 1


class Matching:
    """A step on the rows of an array. References, behind the microphones, pass through equally late.

    ``gains_db``: added to each microphone. ``delays_us``: by how much each one's channel is late.
    """

    def __init__(
        self, mics: int, gains_db: Sequence[float] | None, delays_us: Sequence[float] | None
    ) -> None:
        self._mics = mics
        gains = np.zeros(mics) if gains_db is None else np.asarray(gains_db, np.float64)
        self._gains = (10 ** (gains / 20)).astype(np.float32)[:, None]
        self._filters = None if delays_us is None or not any(delays_us) else _filters(delays_us)
        self._past: Samples = np.zeros((0, 0), np.float32)

    @property
    def delay(self) -> int:
        """Of the channel that is the latest, and of the references."""
        return 0 if self._filters is None else _CENTRE

    def reset(self) -> None:
        self._past = np.zeros((0, 0), np.float32)

    def process(self, block: Samples) -> Samples:
        """float32 [microphones and references, n] -> the same shape."""
        if self._filters is not None:
            block = self._shifted(block, self._filters)
        matched = block.copy()
        matched[: self._mics] *= self._gains
        return matched

    def _shifted(self, block: Samples, filters: Samples) -> Samples:
        reach = filters.shape[1] - 1
        if len(self._past) != len(block):
            self._past = np.zeros((len(block), reach), np.float32)
        line = np.concatenate([self._past, block], axis=1)
        self._past = line[:, -reach:].copy()
        windows = np.lib.stride_tricks.sliding_window_view(line, reach + 1, axis=1)
        out = np.empty_like(block)
        out[: self._mics] = np.einsum("mnt,mt->mn", windows[: self._mics], filters)
        out[self._mics :] = windows[self._mics :, :, -1 - _CENTRE]
        return out


def _filters(delays_us: Sequence[float]) -> Samples:
    """[microphones, taps], newest sample last: each channel is held back until the latest has come."""
    delays = np.asarray(delays_us, np.float64) * 1e-6 * FRAME.rate_hz
    held = delays.max() - delays + _CENTRE
    taps = int(np.ceil(held.max())) + _TAPS - _CENTRE
    at = np.arange(taps)[::-1][None, :] - held[:, None]  # samples before now, from where the filter points
    window = np.i0(_BETA * np.sqrt(np.maximum(0, 1 - (2 * at / _TAPS) ** 2))) / np.i0(_BETA)
    rows = np.sinc(at) * np.where(np.abs(at) <= _TAPS / 2, window, 0)
    filters: Samples = (rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)
    return filters
