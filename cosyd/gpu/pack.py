"""Weights in the layouts that the kernels read; kernels/dense.cuh and kernels/vad.cu describe them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.gpu.weights import UNITS, Lstm, VadWeights

Array = NDArray[Any]

K_TILE = 32  # of the products: K is a multiple
COLUMN_TILE = 128  # packed matrices are padded to this many columns


def padded(size: int, tile: int = K_TILE) -> int:
    return -(-size // tile) * tile


def columns(matrix: Array, group: int) -> Array:
    """[K, N] -> [N'/group, K, group], zero-padded to whole tiles of columns and of K."""
    k, n = matrix.shape
    full = np.zeros((padded(k), padded(n, COLUMN_TILE)), np.float32)
    full[:k, :n] = matrix
    return np.ascontiguousarray(full.reshape(len(full), -1, group).transpose(1, 0, 2))


def lstm_matrix(lstm: Lstm) -> Array:
    """[K, 4 UNITS] with column 4 u + gate: the padded inputs, then the hidden state."""
    inputs = np.zeros((padded(len(lstm.inputs)), 4, UNITS), np.float32)
    inputs[: len(lstm.inputs)] = lstm.inputs
    both = np.concatenate((inputs, lstm.hidden))
    return both.transpose(0, 2, 1).reshape(len(both), -1)


def lstm_bias(lstm: Lstm) -> Array:
    """[UNITS, 4] as one row."""
    return np.ascontiguousarray(lstm.bias.T, np.float32).reshape(-1)


def to_bfloat16(values: Array) -> NDArray[np.uint16]:
    """Rounded to nearest even; NaN does not occur in weights."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.asarray(rounded, np.uint16)


def vad_blob(weights: VadWeights) -> Array:
    """All of the VAD's weights in the order of kernels/vad.cu."""
    parts: list[Any] = [weights.window]
    for kernel, bias in weights.convolutions:
        parts += [_four_inputs(kernel.transpose(2, 1, 0)), bias]  # [3, in, out]
    lstm = weights.lstm
    both = np.concatenate((lstm.inputs, lstm.hidden))  # [2 UNITS, gate, unit]
    parts += [both.reshape(-1, 4, 4, UNITS).transpose(0, 2, 3, 1), lstm.bias]
    parts += [weights.output[0], [weights.output[1], 0, 0, 0]]
    return np.concatenate([np.asarray(part, np.float32).reshape(-1) for part in parts])


def _four_inputs(kernel: Array) -> Array:
    """[3, in, out] -> [3, in'/4, out, 4], in' padded to a multiple of 4."""
    taps, inputs, outputs = kernel.shape
    full = np.zeros((taps, padded(inputs, 4), outputs), np.float32)
    full[:, :inputs] = kernel
    return full.reshape(taps, -1, 4, outputs).transpose(0, 1, 3, 2)
