"""Any rate to the models' rate, with a low-pass filter.

Output k is the input at time k·rate_in/rate_out, interpolated with a windowed sinc whose stop band begins at
the lower of the two Nyquist frequencies: nothing folds back. The filter is symmetric (linear phase) and
centred on the output's own time, so there is no delay to compensate; the price is look-ahead, half
a filter of input.

Outputs are computed in whole blocks that begin at fixed indices, so the arithmetic, and with it every bit,
is the same however the input is cut.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.stage import Samples
from cosyd.spec import FRAME

PASS_EDGE = 0.4375  # of the lower rate: 7 kHz of 16 kHz; flat within 0.01 dB up to here
STOP_EDGE = 0.5  # of the lower rate: its Nyquist frequency; everything above is down by STOP_DB
STOP_DB = 80.0
MOST_PHASES = (
    4096  # odd rates have up to 16,000 phases; rounding the time to 1/4096 sample costs -79 dB at most
)
_CHUNK = 1 << 16  # filter taps designed at a time, to bound memory

Index = TypeVar("Index", int, NDArray[np.int64])


@lru_cache(maxsize=16)
def design(rate_in: int, rate_out: int) -> Samples:
    """Taps float32 [phases + 1, width]: row p serves outputs p/phases after an input sample.

    Kaiser's formulas: width from the transition band, beta from the attenuation. Row sums are 1, so that
    a constant passes exactly. Equal rates have the single tap 1.
    """
    if rate_in == rate_out:
        return np.ones((2, 1), np.float32)
    lower = min(rate_in, rate_out) / rate_in  # all frequencies from here on: 1 is the input rate
    transition = (STOP_EDGE - PASS_EDGE) * lower
    cutoff = (STOP_EDGE + PASS_EDGE) / 2 * lower
    half = int(np.ceil((STOP_DB - 7.95) / (14.36 * transition) / 2)) + 1
    phases = min(rate_out // gcd(rate_in, rate_out), MOST_PHASES)
    offsets = np.arange(-half + 1, half + 1)
    taps = np.empty((phases + 1, 2 * half), np.float32)
    rows = max(1, _CHUNK // (2 * half))
    for first in range(0, phases + 1, rows):
        phase = np.arange(first, min(first + rows, phases + 1))[:, None] / phases
        taps[first : first + rows] = _kernel(offsets - phase, cutoff, half)
    return taps


def _kernel(time: NDArray[np.float64], cutoff: float, half: int) -> NDArray[np.float64]:
    beta = 0.1102 * (STOP_DB - 8.7)
    window = np.i0(beta * np.sqrt(np.clip(1 - (time / half) ** 2, 0, None))) / np.i0(beta)
    kernel = 2 * cutoff * np.sinc(2 * cutoff * time) * window
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


class Resampler:
    """One stream. ``push`` input, take blocks; ``lead``: outputs before time 0 to begin with.

    What lies before the first sample is taken to be that sample, so a constant offset makes no step.
    """

    def __init__(self, rate_in: int, rate_out: int = FRAME.rate_hz, block: int = FRAME.block, lead: int = 0):
        common = gcd(rate_in, rate_out)
        self._up, self._down = rate_out // common, rate_in // common
        self._taps = design(rate_in, rate_out)
        self._block = block
        self._lead = lead
        self._before = self._taps.shape[1] // 2 - (
            self._taps.shape[1] > 1
        )  # taps before an output's own sample
        self.reset()

    def reset(self) -> None:
        """Forget everything; the next sample is at time 0."""
        self._next = -self._lead  # index of the next output
        self._received = 0
        self._buffer: Samples = np.empty(0, np.float32)
        self._first = 0  # index of the buffer's first sample
        self._last = np.float32(0)
        self._until: int | None = None  # set by finish: index at which there are no more outputs

    @property
    def produced(self) -> int:
        """Outputs taken so far, those before time 0 not counted."""
        return max(0, self._next)

    @property
    def expected(self) -> int:
        """Outputs that lie within the input received: ceil(received · rate_out / rate_in)."""
        return -(-self._received * self._up // self._down)

    def input_time(self, output: Index) -> Index:
        """Index of the input sample nearest to an output's time; of each, for an array of outputs."""
        return (2 * output * self._down + self._up) // (2 * self._up)

    def push(self, samples: Samples) -> None:
        """Append float32 [n]. The caller takes the blocks before it pushes more: nothing is dropped here."""
        if self._until is not None:
            raise ValueError("pushed after the end; reset first")
        if not len(samples):
            return
        if not self._received:
            self._first = (self._next * self._down) // self._up - self._before
            self._buffer = np.full(-self._first, samples[0], np.float32)
        self._received += len(samples)
        self._last = samples[-1]
        self._buffer = np.concatenate((self._buffer, samples))

    def finish(self, outputs: int) -> None:
        """End of input: hold the last sample until ``outputs`` outputs (in whole blocks) can be taken."""
        if not self._received:
            return
        blocks = -(-(outputs + self._lead) // self._block)
        last = (blocks * self._block - self._lead) * self._down // self._up + self._taps.shape[1]
        short = last - (self._first + len(self._buffer))
        self._buffer = np.concatenate((self._buffer, np.full(max(0, short), self._last, np.float32)))
        self._until = blocks * self._block - self._lead

    def take(self) -> Samples | None:
        """The next block, float32 [block], or None when there is not enough input for it."""
        blocks = self.take_blocks(1)
        return blocks[0] if len(blocks) else None

    def take_blocks(self, most: int) -> Samples:
        """The next blocks that there is input for, float32 [blocks, block]; at most ``most``, or none."""
        count = min(most, self._waiting)
        if count <= 0:
            return np.empty((0, self._block), np.float32)
        base, rest = divmod(self._next * self._down, self._up)
        out = self._filter(self._buffer[base - self._before - self._first :], rest, count * self._block)
        self._next += count * self._block
        self._discard()
        return out.reshape(count, self._block)

    @property
    def _waiting(self) -> int:
        """Blocks that there is input for."""
        if not self._received:
            return 0
        # The newest input that may be an output's own: as many taps as come after it are there.
        own = self._first + len(self._buffer) - self._taps.shape[1] + self._before
        end = (own * self._up + self._up - 1) // self._down + 1  # outputs whose own sample is that or earlier
        if self._until is not None:
            end = min(end, self._until)
        return int((end - self._next) // self._block)

    def _filter(self, x: Samples, rest: int, count: int) -> Samples:
        """``count`` outputs; the first's window begins at x[0], its time is rest/up samples further on."""
        width = self._taps.shape[1]
        if width == 1:
            return x[:count].copy()
        if self._up == 1:  # a whole-number ratio: every output has the same taps
            shape, strides = (count, width), (x.strides[0] * self._down, x.strides[0])
            windows, taps, product = _view(x, shape, strides), self._taps[0], "kt,t->k"
        else:
            whole, part = np.divmod(np.arange(count) * self._down + rest, self._up)
            phases = len(self._taps) - 1
            phase = (2 * part * phases + self._up) // (2 * self._up)  # the nearest that there is
            windows = _view(x, (len(x) - width + 1, width), x.strides * 2)[whole]
            taps, product = self._taps[phase], "kt,kt->k"
        out: Samples = np.einsum(product, windows, taps)
        return out

    def _discard(self) -> None:
        """Drop input that no later output needs."""
        needed = (self._next * self._down) // self._up - self._before
        if (spent := needed - self._first) > 0:
            self._buffer = self._buffer[spent:]
            self._first = needed


def _view(x: Samples, shape: tuple[int, int], strides: tuple[int, ...]) -> Samples:
    """Overlapping windows of contiguous x without a copy; numpy checks that they lie within it."""
    return np.ndarray(shape, np.float32, x, 0, strides)


def resampled(audio: Samples, rate_in: int) -> Samples:
    """A whole recording, float32 [n] mono, at the models' rate; the last block is filled up with silence."""
    resampler = Resampler(rate_in)
    resampler.push(audio)
    resampler.finish(resampler.expected)
    blocks = []
    while (block := resampler.take()) is not None:
        blocks.append(block)
    return np.concatenate(blocks)
