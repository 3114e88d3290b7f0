"""DTLN noise suppression (Westhausen & Meyer, Interspeech 2020) on ONNX Runtime, many streams at a time.

Per hop of 128 samples: take the last 512, estimate a mask for their magnitude spectrum (network 1: two LSTM
layers), go back to time with the noisy phase, estimate a second mask in a learned basis (network 2: layer
norm, two LSTM layers), overlap-add. The output trails the input by window - hop.

The published files run one stream and one hop a call. A block has four hops, and network 1 needs nothing
of network 2, so the same weights are put into networks over [hops, streams]: each weight matrix is read once
a block instead of four times, which on a small core is what the time goes into (measured on one: 0.39 ms
a block instead of 0.91 ms). Results equal the published networks' to float32 rounding.
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
from cosyd.models.onnx import Network, open_session
from cosyd.spec import FRAME
from cosyd.types import Backend

UNITS = 128  # of each LSTM layer
LAYERS = 2
BINS = FRAME.window // 2 + 1

Weights = Mapping[str, NDArray[Any]]

_STATES = tuple(f"{kind}{layer}" for layer in range(LAYERS) for kind in "hc")


class Dtln:
    """The stage. ``model_1`` and ``model_2`` are the published ONNX files."""

    delay = FRAME.window - FRAME.hop

    def __init__(self, model_1: Path, model_2: Path, slots: int, threads: int = 1) -> None:
        self._mask = open_session(_mask_network(model_1), threads=threads, name="DTLN 1")
        self._refine = open_session(_refine_network(model_2), threads=threads, name="DTLN 2")
        self._heard = np.zeros((slots, self.delay), np.float32)
        self._overlap = np.zeros((slots, self.delay), np.float32)
        self._state = np.zeros((2, len(_STATES), slots, UNITS), np.float32)

    @property
    def backend(self) -> Backend:
        return Backend(f"onnxruntime {self._mask.device}", "two small recurrent networks")

    def reset(self, slots: Slots) -> None:
        self._heard[slots] = 0
        self._overlap[slots] = 0
        self._state[:, :, slots] = 0

    def process(self, slots: Slots, x: Samples) -> Samples:
        """float32 [n, whole blocks] -> the same shape, denoised, ``delay`` samples late."""
        heard = np.concatenate((self._heard[slots], x), axis=1)
        spectrum = np.fft.rfft(_windows(heard))  # [hops, n, bins]
        mask = self._run(0, self._mask, slots, np.abs(spectrum).astype(np.float32, copy=False))
        estimate = np.fft.irfft(spectrum * mask, FRAME.window).astype(np.float32, copy=False)
        frames = self._run(1, self._refine, slots, estimate)
        self._heard[slots] = heard[:, x.shape[1] :]
        return self._overlap_add(slots, frames, x.shape[1])

    def _run(self, index: int, network: Network, slots: Slots, x: Samples) -> Samples:
        """One network over [hops, n, features]; the slots' LSTM states move on."""
        states = self._state[index][:, None, slots]  # [states, 1, n, units]
        feeds = {"x": x, **dict(zip(_STATES, states, strict=True))}
        y, *moved = network.run(feeds)
        self._state[index][:, slots] = np.concatenate(moved)
        return y

    def _overlap_add(self, slots: Slots, frames: Samples, block: int) -> Samples:
        """Add up windows [hops, n, window], each a hop after the one before.

        Of all windows one hop's length at a time, the last first: so each sample gets the windows that cover
        it in the order in which they come, and its bits do not depend on how many come at once.
        """
        hops, streams, _ = frames.shape
        parts = frames.reshape(hops, streams, FRAME.window_hops, FRAME.hop)
        total = np.zeros((streams, block + self.delay), np.float32)
        total[:, : self.delay] = self._overlap[slots]
        sums = total.reshape(streams, -1, FRAME.hop).swapaxes(0, 1)  # a view: [all hops, n, hop]
        for part in reversed(range(FRAME.window_hops)):
            sums[part : part + hops] += parts[:, :, part]
        self._overlap[slots] = total[:, block:]
        return total[:, :block]


def _windows(heard: Samples) -> Samples:
    """[n, length] -> view [hops, n, window]: every window of it, a hop apart."""
    streams, length = heard.shape
    hops = (length - FRAME.window) // FRAME.hop + 1
    row, sample = heard.strides
    # numpy's own sliding_window_view takes as long as a transform here.
    return np.ndarray((hops, streams, FRAME.window), np.float32, heard, 0, (FRAME.hop * sample, row, sample))


# --- the networks --------------------------------------------------------------------------------------


def _mask_network(path: Path) -> bytes:
    """Magnitudes [hops, n, bins] -> mask of the same shape."""
    weights = read_weights(path)
    graph = GraphBuilder()
    x = graph.input("x", ["hops", "n", BINS])
    try:
        for layer, name in enumerate(("lstm_4", "lstm_5")):
            x = _lstm(graph, x, layer, weights[f"{name}_W"], weights[f"{name}_R"], weights[f"{name}_B"])
        mask = _sigmoid_layer(graph, x, weights["dense_2/kernel:0"], weights["dense_2/bias:0"])
    except KeyError as error:
        raise ModelDamaged(f"{path}: not DTLN's first network: it has no {error}") from error
    graph.output(mask, ["hops", "n", BINS])
    return _finish(graph, "dtln_1")


def _refine_network(path: Path) -> bytes:
    """Frames [hops, n, window] -> frames of the same shape."""
    weights = read_weights(path)
    graph = GraphBuilder()
    x = graph.input("x", ["hops", "n", FRAME.window])
    try:
        basis = _matmul(graph, x, "analysis", weights["conv1d_2/kernel:0"][:, :, 0].T)
        norm = "model_2/instant_layer_normalization_1"
        gain = graph.constant("gain", _variable(weights, f"{norm}/mul"))
        shift = graph.constant("shift", _variable(weights, f"{norm}/add_1"))
        floor = {"axis": -1, "epsilon": float(weights[f"{norm}/add/y:0"])}
        y = graph.node("LayerNormalization", [basis, gain, shift], ["normal"], floor)
        for layer, name in enumerate(("lstm_6", "lstm_7")):
            y = _lstm(graph, y, layer, *_from_tensorflow(weights, f"model_2/{name}"))
        mask = _sigmoid_layer(
            graph,
            y,
            weights["model_2/dense_3/Tensordot/Reshape_1:0"],
            _variable(weights, "model_2/dense_3/BiasAdd"),
        )
        masked = graph.node("Mul", [basis, mask], ["masked"])
        out = _matmul(graph, masked, "synthesis", weights["conv1d_3/kernel:0"][:, :, 0].T)
    except KeyError as error:
        raise ModelDamaged(f"{path}: not DTLN's second network: it has no {error}") from error
    graph.output(out, ["hops", "n", FRAME.window])
    return _finish(graph, "dtln_2")


def _variable(weights: Weights, name: str) -> NDArray[Any]:
    return weights[f"{name}/ReadVariableOp/resource:0"]


def _from_tensorflow(weights: Weights, name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """An LSTM in TensorFlow's layout (gates i f c o in columns) in ONNX's (i o f c in rows; two biases)."""
    order = (0, 3, 1, 2)
    matrices = (_variable(weights, f"{name}/{part}") for part in ("MatMul", "MatMul_1", "BiasAdd"))
    w, r, b = (np.concatenate([np.split(m.T, 4)[gate] for gate in order])[None] for m in matrices)
    return w, r, np.concatenate((b, np.zeros_like(b)), axis=1)


def _lstm(graph: GraphBuilder, x: str, layer: int, w: NDArray[Any], r: NDArray[Any], b: NDArray[Any]) -> str:
    """One LSTM layer over the first axis, its states as inputs h, c and outputs new_h, new_c."""
    names = [graph.constant(f"{part}{layer}", value) for part, value in (("W", w), ("R", r), ("B", b))]
    states = [graph.input(f"{kind}{layer}", [1, "n", UNITS]) for kind in "hc"]
    outputs = [f"all{layer}", f"new_h{layer}", f"new_c{layer}"]
    every = graph.node("LSTM", [x, *names, "", *states], outputs, {"hidden_size": UNITS})
    axis = graph.constant(f"direction{layer}", np.array([1], np.int64))
    return graph.node("Squeeze", [every, axis], [f"lstm{layer}"])


def _sigmoid_layer(graph: GraphBuilder, x: str, kernel: NDArray[Any], bias: NDArray[Any]) -> str:
    product = _matmul(graph, x, "dense", kernel)
    total = graph.node("Add", [product, graph.constant("bias", bias)], ["activation"])
    return graph.node("Sigmoid", [total], ["mask"])


def _matmul(graph: GraphBuilder, x: str, name: str, matrix: NDArray[Any]) -> str:
    return graph.node("MatMul", [x, graph.constant(f"{name}_matrix", matrix)], [name])


def _finish(graph: GraphBuilder, name: str) -> bytes:
    for state in _STATES:
        graph.output(f"new_{state}", [1, "n", UNITS])
    return graph.build(name)
