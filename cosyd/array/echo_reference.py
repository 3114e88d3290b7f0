"""What was played, kept for a while and read at any moment, also between samples.

Reading between samples follows a playback clock that runs faster or slower than the capture clock: a windowed
sinc, tabulated for fractions of a sample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float32]

_TAPS = 32  # Kaiser-windowed: ripple below -60 dB up to 7 kHz of 8
_BETA = 7.0
_FRACTIONS = 512  # rows of the table: an error of 1/1024 sample is below -50 dB at 7 kHz


def _table() -> Real:
    """Interpolation filters [fractions + 1, taps]; row i is for i / fractions of a sample."""
    at = np.arange(_TAPS)[None, :] - (_TAPS // 2 - 1) - np.arange(_FRACTIONS + 1)[:, None] / _FRACTIONS
    window = np.i0(_BETA * np.sqrt(np.maximum(0, 1 - (2 * at / _TAPS) ** 2))) / np.i0(_BETA)
    rows = np.sinc(at) * window
    table: Real = (rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)
    return table


class ReferenceLine:
    """A delay line of ``references`` channels that reaches back ``length`` samples."""

    def __init__(self, references: int, length: int) -> None:
        self._samples = np.zeros((references, length), np.float32)
        self._table = _table()
        self.written = 0

    @property
    def length(self) -> int:
        return self._samples.shape[1]

    def reset(self) -> None:
        self._samples[:] = 0
        self.written = 0

    def write(self, block: Real) -> None:
        """Append [references, n]."""
        n = block.shape[1]
        self._samples[:, :-n] = self._samples[:, n:]
        self._samples[:, -n:] = block
        self.written += n

    def read(self, start: float, count: int, ratio: float = 1.0) -> Real:
        """[references, count] from position ``start`` (samples since the start), ``ratio`` apart.

        What is older than the line or not there yet is silence.
        """
        first = int(np.floor(start))
        if ratio == 1.0 and start == first:
            return self._whole(first, count)
        at = start - first + ratio * np.arange(count)
        whole = np.floor(at).astype(np.intp)
        rows = self._table[np.rint((at - whole) * _FRACTIONS).astype(np.intp)]
        before = _TAPS // 2 - 1
        span = self._whole(first - before, int(whole[-1]) + _TAPS)
        windows = np.lib.stride_tricks.sliding_window_view(span, _TAPS, axis=1)[:, whole]
        read: Real = np.einsum("rnt,nt->rn", windows, rows)
        return read

    def _whole(self, first: int, count: int) -> Real:
        oldest = self.written - self.length
        out = np.zeros((len(self._samples), count), np.float32)
        begin, end = max(first, oldest), min(first + count, self.written)
        if begin < end:
            out[:, begin - first : end - first] = self._samples[:, begin - oldest : end - oldest]
        return out
