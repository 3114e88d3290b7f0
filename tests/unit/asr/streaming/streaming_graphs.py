"""The networks of small streaming models, put together operator by operator from a family's description.

Every cached tensor is read and written by each step, so that a state that is lost, mixed up between streams
or fed in the wrong place changes what is recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BINS = 80
DIM = 24
VOCABULARY = 40
CONTEXT = 2


@dataclass
class Graph:
    """Nodes and weights as they are put together. ``half``: weights stored in float16."""

    rng: np.random.Generator
    half: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        output = output or self.name()
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: np.ndarray) -> str:
        name = self.name()
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, *shape: int, gain: float = 1.0) -> str:
        value = (self.rng.standard_normal(shape) * gain / np.sqrt(shape[0])).astype(np.float32)
        if not self.half:
            return self.constant(value)
        return self.op("Cast", self.constant(value.astype(np.float16)), to=TensorProto.FLOAT)

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def linear(self, x: str, size: int, out: int, gain: float = 1.0) -> str:
        return self.op("MatMul", x, self.weight(size, out, gain=gain))

    def add(self, *terms: str) -> str:
        total = terms[0]
        for term in terms[1:]:
            total = self.op("Add", total, term)
        return total

    def slice(self, x: str, start: int, end: int, axis: int) -> str:
        return self.op("Slice", x, self.ints(start), self.ints(end), self.ints(axis))


@dataclass(frozen=True)
class State:
    """As an exporter knows it: ``shape`` has -1 where the batch goes (nowhere: no batch axis)."""

    source: str
    target: str
    shape: tuple[int, ...]
    kind: int = TensorProto.FLOAT


def value_info(name: str, kind: int, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, ["N" if n == -1 else n for n in shape])


def _read(g: Graph, state: State) -> tuple[str, str]:
    """What a state adds to its stream's frames [N, 1, DIM], and the state with the batch first [N, size]."""
    axis = state.shape.index(-1) if -1 in state.shape else None
    size = int(np.prod([n for n in state.shape if n != -1]))
    values = state.source
    if state.kind != TensorProto.FLOAT:
        values = g.op("Cast", values, to=TensorProto.FLOAT)
        values = g.op("Sin", g.op("Mul", values, g.constant(np.array(0.37, np.float32))))
    if axis not in (None, 0):
        order = [axis, *(i for i in range(len(state.shape)) if i != axis)]
        values = g.op("Transpose", values, perm=order)
    flat = g.op("Reshape", values, g.ints(-1 if axis is not None else 1, size))
    part = g.op("Unsqueeze", g.linear(flat, size, DIM, gain=1.5), g.ints(1))
    return part, flat


def _write(g: Graph, state: State, flat: str, summary: str, advance: int) -> None:
    axis = state.shape.index(-1) if -1 in state.shape else None
    if state.kind != TensorProto.FLOAT:
        step = np.array(advance, np.int64 if state.kind == TensorProto.INT64 else np.int32)
        g.op("Add", state.source, g.constant(step), output=state.target)
        return
    size = int(np.prod([n for n in state.shape if n != -1]))
    news = g.op("Tanh", g.linear(summary, DIM, size, gain=2.0))
    kept = g.op("Mul", flat, g.constant(np.array(0.6, np.float32)))
    mixed = g.add(kept, news)
    if axis is None:
        g.op("Reshape", mixed, g.ints(*state.shape), output=state.target)
        return
    rest = [n for n in state.shape if n != -1]
    shaped = g.op("Reshape", mixed, g.ints(-1, *rest))
    order = list(range(1, len(state.shape)))
    order.insert(axis, 0)
    g.op("Transpose", shaped, perm=order, output=state.target)


@dataclass
class Encoder:
    """The description of one encoder to build."""

    window: int
    shift: int
    states: list[State]
    metadata: dict[str, str]
    subsampling: int = 4
    processed: str | None = None  # input int64 [N]
    processed_kind: int = TensorProto.INT64
    channels_first: bool = False
    lengths: bool = False  # NeMo: length in and out
    output: str = "encoder_out"


def _frames(g: Graph, e: Encoder) -> str:
    """[N, shift / subsampling, DIM] of the features, the last frame of the window among them."""
    x = g.op("Transpose", "x", perm=[0, 2, 1]) if e.channels_first else "x"
    x = g.op(
        "Mul", g.op("Add", x, g.constant(np.array(8.0, np.float32))), g.constant(np.array(0.2, np.float32))
    )
    out = e.shift // e.subsampling
    usable = min(e.shift, e.window) // e.subsampling * e.subsampling
    body = g.slice(x, 0, usable, 1)
    if usable < e.shift:  # wenet's window is shorter than a step
        body = g.op("Concat", body, g.slice(x, e.window - (e.shift - usable), e.window, 1), axis=1)
    stacked = g.op("Reshape", body, g.ints(-1, out, e.subsampling * BINS))
    ahead = g.slice(x, e.window - 1, e.window, 1)
    return g.add(g.linear(stacked, e.subsampling * BINS, DIM, gain=3.0), g.linear(ahead, BINS, DIM))


def encode(g: Graph, e: Encoder) -> str:
    """Runs the states through; returns [N, frames, DIM]."""
    reads = [_read(g, state) for state in e.states]
    terms = [_frames(g, e), *(part for part, _ in reads)]
    if e.processed:
        number = g.op("Cast", e.processed, to=TensorProto.FLOAT)
        wave = g.op("Sin", g.op("Mul", number, g.constant(np.array(0.21, np.float32))))
        terms.append(g.linear(g.op("Unsqueeze", wave, g.ints(1, 2)), 1, DIM))
    hidden = g.op("Tanh", g.add(*terms))
    summary = g.op("ReduceMean", hidden, axes=[1], keepdims=0)
    for state, (_, flat) in zip(e.states, reads, strict=True):
        _write(g, state, flat, summary, e.shift)
    return hidden


def log_probs(g: Graph, hidden: str, output: str, size: int = DIM) -> None:
    bias = np.zeros(VOCABULARY, np.float32)
    bias[0] = 2.0
    logits = g.add(g.linear(hidden, size, VOCABULARY, gain=4.0), g.constant(bias))
    g.op("LogSoftmax", logits, axis=-1, output=output)


def save_graph(path: Path, g: Graph, inputs: list, outputs: list, metadata: dict[str, str]) -> None:
    graph = helper.make_graph(g.nodes, "g", inputs, outputs, g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def save_encoder(path: Path, e: Encoder, *, ctc: bool, seed: int = 0, half: bool = False) -> None:
    g = Graph(np.random.default_rng(seed), half)
    hidden = encode(g, e)
    if ctc:
        log_probs(g, hidden, e.output)
    else:
        g.op("MatMul", hidden, g.weight(DIM, DIM, gain=2.0), output=e.output)
    x = ["N", BINS, "T"] if e.channels_first else ["N", "T" if e.lengths else e.window, BINS]
    inputs = [value_info("x", TensorProto.FLOAT, x)]
    if e.lengths:
        inputs.append(value_info("length", TensorProto.INT64, [-1]))
    inputs += [value_info(s.source, s.kind, s.shape) for s in e.states]
    if e.processed:
        inputs.append(value_info(e.processed, e.processed_kind, [-1]))
    outputs = [value_info(e.output, TensorProto.FLOAT, ["N", "frames", VOCABULARY if ctc else DIM])]
    if e.lengths:
        g.op("Identity", "length", output="out_length")
        outputs.append(value_info("out_length", TensorProto.INT64, [-1]))
    outputs += [value_info(s.target, s.kind, s.shape) for s in e.states]
    save_graph(path, g, inputs, outputs, e.metadata)


def save_decoder(path: Path, seed: int = 1, kind: int = TensorProto.INT64) -> None:
    g = Graph(np.random.default_rng(seed))
    zero = g.constant(np.array(0, np.int64 if kind == TensorProto.INT64 else np.int32))
    known = g.op(
        "Unsqueeze", g.op("Cast", g.op("Not", g.op("Less", "y", zero)), to=TensorProto.FLOAT), g.ints(2)
    )
    embedded = g.op("Gather", g.weight(VOCABULARY, DIM, gain=5.0), g.op("Max", "y", zero), axis=0)
    flat = g.op("Reshape", g.op("Mul", embedded, known), g.ints(-1, CONTEXT * DIM))
    g.op("MatMul", flat, g.weight(CONTEXT * DIM, DIM, gain=2.0), output="decoder_out")
    metadata = {"context_size": str(CONTEXT), "vocab_size": str(VOCABULARY)}
    inputs = [value_info("y", kind, [-1, CONTEXT])]
    save_graph(path, g, inputs, [value_info("decoder_out", TensorProto.FLOAT, [-1, DIM])], metadata)


def save_joiner(path: Path, seed: int = 2) -> None:
    g = Graph(np.random.default_rng(seed))
    hidden = g.op("Tanh", g.add("encoder_out", "decoder_out"))
    bias = np.zeros(VOCABULARY, np.float32)
    bias[0] = 3.0
    g.op("Add", g.linear(hidden, DIM, VOCABULARY, gain=4.0), g.constant(bias), output="logit")
    inputs = [value_info(n, TensorProto.FLOAT, [-1, DIM]) for n in ("encoder_out", "decoder_out")]
    outputs = [value_info("logit", TensorProto.FLOAT, [-1, VOCABULARY])]
    save_graph(path, g, inputs, outputs, {"joiner_dim": str(DIM)})
