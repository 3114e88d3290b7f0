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
    powers of a, and over the runs' ends by another. Each product is made per stream with the same shape
    (numpy loops over the leading axis), so a stream's bits do not depend on the batch. The sample before the
    first is taken to be the first, so a constant offset makes no step.
    """

    delay = 0

    def __init__(self, slots: int, block: int = FRAME.block, rate_hz: int = FRAME.rate_hz) -> None:
        runs = block // _RUN
        pole = float(np.exp(-2 * np.pi * DC_CORNER_HZ / rate_hz))
        self._within = _powers(pole, _RUN)
        self._across = _powers(pole**_RUN, runs)
        self._decay = (pole ** np.arange(1, _RUN + 1)).astype(np.float32)
        self._carry = np.float32(pole**_RUN)
        self._runs = runs
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
        """float32 [n, block] -> float32 [n, block]."""
        before = np.where(self._fresh[slots], x[:, 0], self._x[slots])
        difference = x.copy()
        difference[:, 1:] -= x[:, :-1]
        difference[:, 0] -= before
        y: Samples = np.matmul(difference.reshape(len(x), self._runs, _RUN), self._within)
        ends = y[:, None, :, -1].copy()
        ends[:, 0, 0] += self._carry * self._y[slots]
        ends = np.matmul(ends, self._across)[:, 0]  # the true value at each run's end
        ends[np.abs(ends) < _NOTHING] = 0
        start = np.concatenate((self._y[slots, None], ends[:, :-1]), axis=1)
        y += start[:, :, None] * self._decay
        self._x[slots], self._y[slots], self._fresh[slots] = x[:, -1], ends[:, -1], False
        return y.reshape(x.shape)


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
        """float32 [n, block] -> float32 [n, block]."""
        line = np.concatenate((self._kept[slots], x), axis=1)
        self._kept[slots] = line[:, x.shape[1] :]
        return line[:, : x.shape[1]]
