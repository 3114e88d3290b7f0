"""Weights of DTLN and Silero from their ONNX files, in one plain form that kernels and references share.

The files are read by cosyd.models.graph (a few dozen lines of protobuf; ``onnx`` is no dependency at run
time). Gates are always ordered input, forget, cell, output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import ModelDamaged
from cosyd.models.graph import read_weights

Array = NDArray[Any]
UNITS = 128
_FROM_ONNX = (0, 2, 3, 1)  # ONNX orders gates i o f c


@dataclass(frozen=True)
class Lstm:
    """inputs [in, 4, UNITS], hidden [UNITS, 4, UNITS], bias [4, UNITS]."""

    inputs: Array
    hidden: Array
    bias: Array

    @classmethod
    def from_rows(cls, w: Array, r: Array, bias: Array, order: tuple[int, ...]) -> Lstm:
        """w [4 UNITS, in] and r [4 UNITS, UNITS] with gates in rows."""
        pick = list(order)
        inputs, hidden = (m.reshape(4, UNITS, -1)[pick].transpose(2, 0, 1) for m in (w, r))
        return cls(inputs, hidden, bias.reshape(4, UNITS)[pick])


@dataclass(frozen=True)
class DtlnWeights:
    """Stage 1: lstm[0], lstm[1], mask. Stage 2: basis, norm, lstm[2], lstm[3], refine, inverse."""

    lstm: tuple[Lstm, Lstm, Lstm, Lstm]
    mask: tuple[Array, Array]  # [UNITS, 257], [257]
    basis: Array  # [512, 256]
    norm: tuple[Array, Array, float]  # gain [256], bias [256], epsilon
    refine: tuple[Array, Array]  # [UNITS, 256], [256]
    inverse: Array  # [256, 512]


@dataclass(frozen=True)
class VadWeights:
    """window [256]; convolutions ([out, in, 3], [out]); lstm; output ([UNITS], scalar)."""

    window: Array
    convolutions: tuple[tuple[Array, Array], ...]
    lstm: Lstm
    output: tuple[Array, float]


def read_dtln(model_1: Path, model_2: Path) -> DtlnWeights:
    """Raises ModelDamaged for files that are not DTLN's two networks."""
    try:
        first, second = read_weights(model_1), read_weights(model_2)
        layers = [_onnx_lstm(first, name) for name in ("lstm_4", "lstm_5")]
        layers += [_tensorflow_lstm(second, f"model_2/{name}") for name in ("lstm_6", "lstm_7")]
        norm = "model_2/instant_layer_normalization_1"
        return DtlnWeights(
            lstm=(layers[0], layers[1], layers[2], layers[3]),
            mask=(first["dense_2/kernel:0"], first["dense_2/bias:0"]),
            basis=second["conv1d_2/kernel:0"][:, :, 0].T,
            norm=(
                _variable(second, f"{norm}/mul"),
                _variable(second, f"{norm}/add_1"),
                float(second[f"{norm}/add/y:0"]),
            ),
            refine=(
                second["model_2/dense_3/Tensordot/Reshape_1:0"],
                _variable(second, "model_2/dense_3/BiasAdd"),
            ),
            inverse=second["conv1d_3/kernel:0"][:, :, 0].T,
        )
    except (KeyError, ValueError) as error:
        raise ModelDamaged(f"{model_1}, {model_2}: not DTLN's two networks: {error}") from error


def _onnx_lstm(weights: Mapping[str, Array], name: str) -> Lstm:
    w, r, b = (weights[f"{name}_{part}"][0] for part in "WRB")
    return Lstm.from_rows(w, r, b[: 4 * UNITS] + b[4 * UNITS :], _FROM_ONNX)


def _tensorflow_lstm(weights: Mapping[str, Array], name: str) -> Lstm:
    """TensorFlow has gates i f c o in columns."""
    w, r, b = (_variable(weights, f"{name}/{part}") for part in ("MatMul", "MatMul_1", "BiasAdd"))
    return Lstm(w.reshape(-1, 4, UNITS), r.reshape(-1, 4, UNITS), b.reshape(4, UNITS))


def _variable(weights: Mapping[str, Array], name: str) -> Array:
    return weights[f"{name}/ReadVariableOp/resource:0"]


def read_vad(model: Path) -> VadWeights:
    """Raises ModelDamaged for a file that is not Silero 6 at 16 kHz, or whose basis is not a windowed DFT."""
    weights = read_weights(model)
    try:
        basis = weights["model.stft.forward_basis_buffer"][:, 0]
        layers = [f"model.encoder.{i}.reparam_conv" for i in range(4)]
        w, r, bi, bh = (
            weights[f"model.decoder.rnn.{n}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        vad = VadWeights(
            window=basis[0],
            convolutions=tuple((weights[f"{n}.weight"], weights[f"{n}.bias"]) for n in layers),
            lstm=Lstm.from_rows(w, r, bi + bh, (0, 1, 2, 3)),
            output=(
                weights["model.decoder.decoder.2.weight"].reshape(-1),
                float(weights["model.decoder.decoder.2.bias"][0]),
            ),
        )
    except (KeyError, ValueError) as error:
        raise ModelDamaged(f"{model}: not Silero VAD 6 for 16 kHz: {error}") from error
    if (off := _basis_error(basis)) > 1e-5:
        raise ModelDamaged(f"{model}: its spectrum is not a windowed DFT (off by {off:.1e}): another version")
    return vad


def _basis_error(basis: Array) -> float:
    """How far the rows are from window·cos and ±window·sin, which the kernel's FFT stands for."""
    size = basis.shape[1]
    angle = 2 * np.pi * np.outer(np.arange(size // 2 + 1), np.arange(size)) / size
    cosines, sines = np.split(basis.astype(np.float64), 2)
    window = cosines[0]
    off = np.abs(cosines - window * np.cos(angle)).max()
    return float(max(off, np.abs(np.abs(sines) - np.abs(window * np.sin(angle))).max()))
