"""DTLN and Silero VAD in float64, one stream. Checked against ONNX Runtime on the published files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.gpu.weights import UNITS, DtlnWeights, Lstm, VadWeights
from cosyd.spec import FRAME

Array = NDArray[Any]
VAD_CONTEXT = 64
VAD_FRAME = 256


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.asarray(x, np.float64))))


class LstmCell:
    """One layer with its state."""

    def __init__(self, weights: Lstm) -> None:
        both = np.concatenate((weights.inputs, weights.hidden)).astype(np.float64)
        self._matrix = both.reshape(len(both), -1)
        self._bias = weights.bias.astype(np.float64)
        self.h = np.zeros(UNITS)
        self.c = np.zeros(UNITS)

    def __call__(self, x: Array) -> Array:
        i, f, g, o = (np.concatenate((x, self.h)) @ self._matrix).reshape(4, UNITS) + self._bias
        self.c = sigmoid(f) * self.c + sigmoid(i) * np.tanh(g)
        self.h = sigmoid(o) * np.tanh(self.c)
        return self.h


class Dtln:
    """Feed hops of 128 samples; each gives the 128 denoised samples that are complete."""

    def __init__(self, weights: DtlnWeights) -> None:
        self._w = weights
        self._basis, self._inverse = weights.basis.astype(np.float64), weights.inverse.astype(np.float64)
        self._cells = [LstmCell(w) for w in weights.lstm]
        self._frame = np.zeros(FRAME.window)
        self._sum = np.zeros(FRAME.window)

    def __call__(self, hop: Array) -> Array:
        self._frame = np.concatenate((self._frame[FRAME.hop :], hop))
        self._sum = np.concatenate((self._sum[FRAME.hop :], np.zeros(FRAME.hop)))
        self._sum += self._second(self._first(self._frame))
        return self._sum[: FRAME.hop]

    def _first(self, frame: Array) -> Array:
        spectrum = np.fft.rfft(frame)
        kernel, bias = self._w.mask
        mask = sigmoid(self._cells[1](self._cells[0](np.abs(spectrum))) @ kernel + bias)
        return np.fft.irfft(spectrum * mask, FRAME.window)

    def _second(self, frame: Array) -> Array:
        features = frame @ self._basis
        gain, shift, epsilon = self._w.norm
        normal = (features - features.mean()) / np.sqrt(features.var() + epsilon) * gain + shift
        kernel, bias = self._w.refine
        mask = sigmoid(self._cells[3](self._cells[2](normal)) @ kernel + bias)
        return np.asarray(features * mask @ self._inverse)


class Vad:
    """Feed chunks of 512 samples; each gives a probability."""

    def __init__(self, weights: VadWeights) -> None:
        self._w = weights
        self._cell = LstmCell(weights.lstm)
        self._context = np.zeros(VAD_CONTEXT)

    def __call__(self, chunk: Array) -> float:
        x = np.concatenate((self._context, chunk)).astype(np.float64)
        self._context = x[-VAD_CONTEXT:]
        x = np.concatenate((x, x[-2 : -2 - VAD_CONTEXT : -1]))
        hop = VAD_FRAME // 2
        frames = np.stack([x[t : t + VAD_FRAME] for t in range(0, len(x) - VAD_FRAME + 1, hop)])
        y = np.abs(np.fft.rfft(frames * self._w.window)).T
        for (kernel, bias), stride in zip(self._w.convolutions, (1, 2, 2, 1), strict=True):
            y = np.maximum(_convolve(y, kernel.astype(np.float64), stride) + bias[:, None], 0)
        h = self._cell(y[:, 0])
        row, offset = self._w.output
        return float(sigmoid(np.maximum(h, 0) @ row + offset))


def _convolve(x: Array, kernel: Array, stride: int) -> Array:
    """x [in, t], kernel [out, in, 3], padding 1."""
    padded = np.pad(x, ((0, 0), (1, 1)))
    steps = range(0, x.shape[1], stride)
    return np.stack([np.einsum("oik,ik->o", kernel, padded[:, t : t + 3]) for t in steps], axis=1)
