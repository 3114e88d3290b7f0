"""Plain stages: removing the constant part, and waiting as long as another stage does."""

from __future__ import annotations

import numpy as np

from cosyd.frontend.stage import Samples, Slots
from cosyd.spec import FRAME
from cosyd.types import Backend

DC_CORNER_HZ = (
    20.0  # below speech (the lowest voices are at 70 Hz) and below what the models heard in training
)
_NOTHING = np.float32(
    1e-20
)  # -400 dB: a remainder this small is made 0 before it becomes denormal, which is slow
_RUN = 16  # samples filtered by one small matrix product; 512 is 32 runs

_NUMPY = Backend("numpy", "a filter of a few microseconds a block")


class DcRemoval:
    """First-order high-pass, y[n] = x[n] - x[n-1] + a·y[n-1], over blocks of many streams.

    The recursion is unrolled into matrix products: within runs of 16 samples by a triangular matrix of
    powers of a, and over the runs' ends of a block by another. Each product is made per stream and block
    with the same shape (numpy loops over the leading axis), so a stream's bits depend neither on the batch
    nor on how many blocks come at once. The sample before the first is taken to be the first, so a constant
    offset makes no step.
    """

    delay = 0

    def __init__(self, slots: int, block: int = FRAME.block, rate_hz: int = FRAME.rate_hz) -> None:
        runs = block // _RUN
        pole = float(np.exp(-2 * np.pi * DC_CORNER_HZ / rate_hz))
        self._within = _powers(pole, _RUN)
        self._across = _powers(pole**_RUN, runs)
        self._decay = (pole ** np.arange(1, _RUN + 1)).astype(np.float32)
        self._fade = (pole ** (_RUN * np.arange(1, runs + 1))).astype(np.float32)
        self._block, self._runs = block, runs
        self._x = np.zeros(slots, np.float32)
        self._y = np.zeros(slots, np.float32)
        self._fresh = np.ones(slots, np.bool_)

    @property
    def backend(self) -> Backend:
        return _NUMPY

    def reset(self, slots: Slots) -> None:
        self._y[slots] = 0
        self._fresh[slots] = True

    def process(self, slots: Slots, x: Samples) -> Samples:
        """float32 [n, whole blocks] -> the same shape."""
        rows = len(x) * (x.shape[1] // self._block)
        difference = np.empty_like(x)
        np.subtract(x[:, 1:], x[:, :-1], out=difference[:, 1:])
        difference[:, 0] = x[:, 0] - np.where(self._fresh[slots], x[:, 0], self._x[slots])
        y: Samples = np.matmul(difference.reshape(rows, self._runs, _RUN), self._within)
        starts = self._starts(slots, np.matmul(y[:, None, :, -1].copy(), self._across)[:, 0])
        y += starts.reshape(rows, self._runs, 1) * self._decay
        self._x[slots], self._fresh[slots] = x[:, -1], False
        return y.reshape(x.shape)

    def _starts(self, slots: Slots, ends: Samples) -> Samples:
        """What each run begins with, [n, runs of all blocks], and the state after the last.

        ``ends`` [n · blocks, runs]: the value at each run's end if its block began at rest.
        """
        ends = ends.reshape(len(slots), -1, self._runs)
        last = self._y[slots]
        starts = np.empty_like(ends)
        for block in range(ends.shape[1]):
            part = ends[:, block]
            part += last[:, None] * self._fade
            part[np.abs(part) < _NOTHING] = 0
            starts[:, block, 0], starts[:, block, 1:] = last, part[:, :-1]
            last = part[:, -1]
        self._y[slots] = last
        return starts


def _powers(base: float, size: int) -> Samples:
    """[size, size] with base^(j - i) for j >= i, else 0: row vector times it is the recursion from rest."""
    exponent = np.arange(size)[None, :] - np.arange(size)[:, None]
    return np.where(exponent >= 0, base ** np.maximum(exponent, 0), 0).astype(np.float32)


class Delay:
    """Gives back its input ``delay`` samples later, beginning with silence."""

    def __init__(self, slots: int, delay: int) -> None:
        self.delay = delay
        self._kept = np.zeros((slots, delay), np.float32)

    @property
    def backend(self) -> Backend:
        return _NUMPY

    def reset(self, slots: Slots) -> None:
        self._kept[slots] = 0

    def process(self, slots: Slots, x: Samples) -> Samples:
        """float32 [n, samples] -> the same shape."""
        line = np.concatenate((self._kept[slots], x), axis=1)
        self._kept[slots] = line[:, x.shape[1] :]
        return line[:, : x.shape[1]]
