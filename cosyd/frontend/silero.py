"""Silero VAD 6 on ONNX Runtime: the probability that a block is speech, many streams and blocks at a time.

A block of 512 samples with the last 64 before it and its own end mirrored is 4 frames of 256 samples, 128
apart. Their magnitude spectra go through four convolutions over time, which leave one vector a block, then
through an LSTM over the blocks; its output is the probability.

The published file takes one block a call. In silence, and when audio waits, there are several, and only the
LSTM depends on the block before. So its weights are put into a network over [blocks, streams], in which
convolutions are products of their patches with one matrix: a call costs little more for three blocks than for
one. Results equal the published network's to float32 rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import ModelDamaged
from cosyd.frontend.stage import Samples, Slots
from cosyd.models.graph import GraphBuilder, read_weights
from cosyd.models.onnx import open_session
from cosyd.spec import FRAME
from cosyd.types import Backend

CONTEXT = 64  # samples of the block before that the network sees again
UNITS = 128  # of its LSTM
WINDOW = 256  # samples of a frame
HOP = 128
FRAMES = (CONTEXT + FRAME.block + CONTEXT - WINDOW) // HOP + 1  # of a block
BINS = WINDOW // 2 + 1

Weights = Mapping[str, NDArray[Any]]


class SileroVad:
    """The stage. ``model`` is the published ONNX file."""

    delay = 0

    def __init__(self, model: Path, slots: int, threads: int = 1) -> None:
        self._network = open_session(_network(model), threads=threads, name=model.name)
        self._context = np.zeros((slots, CONTEXT), np.float32)
        self._state = np.zeros((2, slots, UNITS), np.float32)

    @property
    def backend(self) -> Backend:
        return Backend(f"onnxruntime {self._network.device}", "one small recurrent network")

    def reset(self, slots: Slots) -> None:
        self._context[slots] = 0
        self._state[:, slots] = 0

    def process(self, slots: Slots, x: Samples) -> Samples:
        """float32 [n, block] -> probability float32 [n]."""
        return self.detect(slots, x)[:, 0]

    def detect(self, slots: Slots, x: Samples) -> Samples:
        """float32 [n, whole blocks] -> probability float32 [n, blocks]."""
        heard = np.concatenate((self._context[slots], x), axis=1)
        h, c = self._state[:, None, slots]
        probability, *state = self._network.run({"x": _frames(heard), "h": h, "c": c})
        self._state[:, slots] = np.concatenate(state)
        self._context[slots] = x[:, -CONTEXT:]
        return probability[:, :, 0].T


def _frames(heard: Samples) -> Samples:
    """[n, context and whole blocks] -> view [blocks, n, frames, window]."""
    streams, length = heard.shape
    blocks, known = length // FRAME.block, CONTEXT + FRAME.block
    row, sample = heard.strides
    every = np.ndarray((blocks, streams, known), np.float32, heard, 0, (FRAME.block * sample, row, sample))
    whole = np.empty((blocks, streams, known + CONTEXT), np.float32)
    whole[..., :known] = every
    whole[..., known:] = every[..., known - 2 : known - 2 - CONTEXT : -1]
    shape = (blocks, streams, FRAMES, WINDOW)
    return np.ndarray(shape, np.float32, whole, 0, (*whole.strides[:2], HOP * sample, sample))


# --- the network ---------------------------------------------------------------------------------------


def _network(path: Path) -> bytes:
    """Frames [blocks, n, frames, window] -> probability [blocks, n, 1]."""
    weights = read_weights(path)
    graph = GraphBuilder()
    try:
        y = _magnitudes(graph, weights["model.stft.forward_basis_buffer"][:, 0])
        for layer in range(4):
            name = f"model.encoder.{layer}.reparam_conv"
            y = _convolution(graph, layer, y, weights[f"{name}.weight"], weights[f"{name}.bias"])
        y = _lstm(graph, y, weights)
        y = graph.node("Relu", [y], ["heard"])
        last = "model.decoder.decoder.2"
        y = _layer(graph, "last", y, weights[f"{last}.weight"][:, :, 0], weights[f"{last}.bias"])
        y = graph.node("Sigmoid", [y], ["probability"])
    except (KeyError, ValueError) as error:
        raise ModelDamaged(f"{path}: not Silero VAD 6 for 16 kHz: {error}") from error
    graph.output(y, ["blocks", "n", 1])
    for state in "hc":
        graph.output(f"new_{state}", [1, "n", UNITS])
    return graph.build("silero_vad")


def _magnitudes(graph: GraphBuilder, basis: NDArray[Any]) -> str:
    """Spectra of frames; ``basis`` [2 bins, window]: cosines, then sines."""
    x = graph.input("x", ["blocks", "n", FRAMES, WINDOW])
    spectrum = graph.node("MatMul", [x, graph.constant("basis", basis.T)], ["spectrum"])
    power = graph.node("Mul", [spectrum, spectrum], ["power"])
    sizes = graph.constant("parts", np.array([BINS, BINS], np.int64))
    graph.node("Split", [power, sizes], ["real", "imaginary"], {"axis": -1})
    return graph.node("Sqrt", [graph.node("Add", ["real", "imaginary"], ["square"])], ["magnitude"])


# The frames that each output of a convolution sees: 4 frames become 4, then 2, 1, 1. _PADDED is one of zeros;
# a tap that sees nothing else is left out.
_PADDED = -1
_SEEN = (
    ((_PADDED, 0, 1), (0, 1, 2), (1, 2, 3), (2, 3, _PADDED)),
    ((_PADDED, 0, 1), (1, 2, 3)),
    ((0, 1),),
    ((0,),),
)
_TAPS = ((0, 1, 2), (0, 1, 2), (1, 2), (1,))


def _convolution(graph: GraphBuilder, layer: int, x: str, weight: NDArray[Any], bias: NDArray[Any]) -> str:
    """[blocks, n, frames, in] -> [blocks, n, fewer frames, out]; the last two without the axis of one frame.

    ``weight`` [out, in, 3], with padding of one frame on both sides.
    """
    seen, taps = _SEEN[layer], list(_TAPS[layer])
    wide = len(taps) * weight.shape[1]
    name = f"conv{layer}"
    if len(seen) > 1:
        pads = graph.constant(f"{name}_pads", np.array([0] * 6 + [1, 0], np.int64))
        padded = graph.node("Pad", [x, pads], [f"{name}_padded"])
        index = graph.constant(f"{name}_seen", np.array(seen, np.int64))
        x = graph.node("Gather", [padded, index], [f"{name}_patches"], {"axis": 2})
    if layer < 3:
        shape = [0, 0, len(seen), wide] if len(seen) > 1 else [0, 0, wide]
        shape_name = graph.constant(f"{name}_shape", np.array(shape, np.int64))
        x = graph.node("Reshape", [x, shape_name], [f"{name}_in"])
    matrix = weight[:, :, taps].transpose(0, 2, 1).reshape(len(weight), wide)
    return graph.node("Relu", [_layer(graph, name, x, matrix, bias)], [f"{name}_out"])


def _layer(graph: GraphBuilder, name: str, x: str, matrix: NDArray[Any], bias: NDArray[Any]) -> str:
    """``matrix`` [out, in]."""
    product = graph.node("MatMul", [x, graph.constant(f"{name}_matrix", matrix.T)], [f"{name}_product"])
    return graph.node("Add", [product, graph.constant(f"{name}_bias", bias)], [f"{name}_sum"])


def _lstm(graph: GraphBuilder, x: str, weights: Weights) -> str:
    """[blocks, n, units] -> the same shape: an LSTM over blocks; its state is h, c, then new_h, new_c."""
    w, r, input_bias, hidden_bias = (
        _gates(weights[f"model.decoder.rnn.{name}"])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    values = {"W": w, "R": r, "B": np.concatenate((input_bias, hidden_bias), axis=1)}
    names = [graph.constant(name, value) for name, value in values.items()]
    states = [graph.input(state, [1, "n", UNITS]) for state in "hc"]
    outputs = ["every", "new_h", "new_c"]
    every = graph.node("LSTM", [x, *names, "", *states], outputs, {"hidden_size": UNITS})
    return graph.node("Squeeze", [every, graph.constant("direction", np.array([1], np.int64))], ["lstm"])


def _gates(rows: NDArray[Any]) -> NDArray[Any]:
    """PyTorch's order of gates, i f g o, in ONNX's, i o f c; with an axis for the direction."""
    return np.concatenate([np.split(rows, 4)[gate] for gate in (0, 3, 1, 2)])[None]
