"""Small models with random weights in the layout of each family: right names, shapes, order and metadata.

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


def _value(name: str, kind: int, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
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


def _encode(g: Graph, e: Encoder) -> str:
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


def _log_probs(g: Graph, hidden: str, output: str, size: int = DIM) -> None:
    bias = np.zeros(VOCABULARY, np.float32)
    bias[0] = 2.0
    logits = g.add(g.linear(hidden, size, VOCABULARY, gain=4.0), g.constant(bias))
    g.op("LogSoftmax", logits, axis=-1, output=output)


def _save(path: Path, g: Graph, inputs: list, outputs: list, metadata: dict[str, str]) -> None:
    graph = helper.make_graph(g.nodes, "g", inputs, outputs, g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def save_encoder(path: Path, e: Encoder, *, ctc: bool, seed: int = 0, half: bool = False) -> None:
    g = Graph(np.random.default_rng(seed), half)
    hidden = _encode(g, e)
    if ctc:
        _log_probs(g, hidden, e.output)
    else:
        g.op("MatMul", hidden, g.weight(DIM, DIM, gain=2.0), output=e.output)
    x = ["N", BINS, "T"] if e.channels_first else ["N", "T" if e.lengths else e.window, BINS]
    inputs = [_value("x", TensorProto.FLOAT, x)]
    if e.lengths:
        inputs.append(_value("length", TensorProto.INT64, [-1]))
    inputs += [_value(s.source, s.kind, s.shape) for s in e.states]
    if e.processed:
        inputs.append(_value(e.processed, e.processed_kind, [-1]))
    outputs = [_value(e.output, TensorProto.FLOAT, ["N", "frames", VOCABULARY if ctc else DIM])]
    if e.lengths:
        g.op("Identity", "length", output="out_length")
        outputs.append(_value("out_length", TensorProto.INT64, [-1]))
    outputs += [_value(s.target, s.kind, s.shape) for s in e.states]
    _save(path, g, inputs, outputs, e.metadata)


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
    inputs = [_value("y", kind, [-1, CONTEXT])]
    _save(path, g, inputs, [_value("decoder_out", TensorProto.FLOAT, [-1, DIM])], metadata)


def save_joiner(path: Path, seed: int = 2) -> None:
    g = Graph(np.random.default_rng(seed))
    hidden = g.op("Tanh", g.add("encoder_out", "decoder_out"))
    bias = np.zeros(VOCABULARY, np.float32)
    bias[0] = 3.0
    g.op("Add", g.linear(hidden, DIM, VOCABULARY, gain=4.0), g.constant(bias), output="logit")
    inputs = [_value(n, TensorProto.FLOAT, [-1, DIM]) for n in ("encoder_out", "decoder_out")]
    outputs = [_value("logit", TensorProto.FLOAT, [-1, VOCABULARY])]
    _save(path, g, inputs, outputs, {"joiner_dim": str(DIM)})


# --- families -------------------------------------------------------------------------------------------


def zipformer2(chunk: int = 32) -> Encoder:
    layers, dims, heads, kernels, left = (1, 2), (16, 24), (2, 2), (7, 5), (8, 4)
    query, value = (4, 4), (3, 3)
    states = []
    for n, d, h, k, lc, q, v in zip(layers, dims, heads, kernels, left, query, value, strict=True):
        for _ in range(n):
            i = len(states) // 6
            shapes = {
                "cached_key": (lc, -1, q * h),
                "cached_nonlin_attn": (1, -1, lc, 3 * d // 4),
                "cached_val1": (lc, -1, v * h),
                "cached_val2": (lc, -1, v * h),
                "cached_conv1": (-1, d, k // 2),
                "cached_conv2": (-1, d, k // 2),
            }
            states += [State(f"{name}_{i}", f"new_{name}_{i}", shape) for name, shape in shapes.items()]
    states.append(State("embed_states", "new_embed_states", (-1, 128, 3, 19)))
    states.append(State("processed_lens", "new_processed_lens", (-1,), TensorProto.INT64))
    lists = {
        "encoder_dims": dims,
        "query_head_dims": query,
        "value_head_dims": value,
        "num_heads": heads,
        "num_encoder_layers": layers,
        "cnn_module_kernels": kernels,
        "left_context_len": left,
    }
    metadata = {key: ",".join(map(str, values)) for key, values in lists.items()}
    metadata |= {"model_type": "zipformer2", "T": str(chunk + 13), "decode_chunk_len": str(chunk)}
    return Encoder(chunk + 13, chunk, states, metadata)


def zipformer(chunk: int = 32) -> Encoder:
    layers, dims, attention, kernels, left = (1, 2), (16, 12), (8, 12), (7, 5), (8, 4)
    stacks = list(zip(layers, dims, attention, kernels, left, strict=True))
    kinds = {
        "cached_len": [(n, -1) for n, *_ in stacks],
        "cached_avg": [(n, -1, d) for n, d, *_ in stacks],
        "cached_key": [(n, lc, -1, a) for n, _, a, _, lc in stacks],
        "cached_val": [(n, lc, -1, a // 2) for n, _, a, _, lc in stacks],
        "cached_val2": [(n, lc, -1, a // 2) for n, _, a, _, lc in stacks],
        "cached_conv1": [(n, -1, d, k - 1) for n, d, _, k, _ in stacks],
        "cached_conv2": [(n, -1, d, k - 1) for n, d, _, k, _ in stacks],
    }
    states = [
        State(f"{kind}_{i}", f"new_{kind}_{i}", shape, _int(kind == "cached_len"))
        for kind, shapes in kinds.items()
        for i, shape in enumerate(shapes)
    ]
    lists = {
        "encoder_dims": dims,
        "attention_dims": attention,
        "num_encoder_layers": layers,
        "cnn_module_kernels": kernels,
        "left_context_len": left,
    }
    metadata = {key: ",".join(map(str, values)) for key, values in lists.items()}
    metadata |= {"model_type": "zipformer", "T": str(chunk + 7), "decode_chunk_len": str(chunk)}
    return Encoder(chunk + 7, chunk, states, metadata)


def _int(integer: bool) -> int:
    return TensorProto.INT64 if integer else TensorProto.FLOAT


def conformer() -> Encoder:
    states = [
        State("cached_attn", "new_cached_attn", (2, 8, -1, 12)),
        State("cached_conv", "new_cached_conv", (2, 4, -1, 12)),
    ]
    numbers = {
        "num_encoder_layers": 2,
        "T": 39,
        "decode_chunk_len": 32,
        "left_context": 8,
        "encoder_dim": 12,
        "pad_length": 7,
        "cnn_module_kernel": 5,
    }
    metadata = {key: str(value) for key, value in numbers.items()} | {"model_type": "conformer"}
    return Encoder(39, 32, states, metadata, processed="processed_lens")


def lstm() -> Encoder:
    states = [State("h", "next_h", (3, -1, 12)), State("c", "next_c", (3, -1, 20))]
    numbers = {"num_encoder_layers": 3, "T": 9, "decode_chunk_len": 4, "rnn_hidden_size": 20, "d_model": 12}
    metadata = {key: str(value) for key, value in numbers.items()} | {"model_type": "lstm"}
    return Encoder(9, 4, states, metadata)


def conv_emformer() -> Encoder:
    states = []
    for i in range(2):
        shapes = [(4, -1, 12), (8, -1, 12), (8, -1, 12), (-1, 12, 4)]
        states += [State(f"layer{i}_{j}", f"new_layer{i}_{j}", shape) for j, shape in enumerate(shapes)]
    numbers = {
        "decode_chunk_len": 32,
        "T": 44,
        "num_encoder_layers": 2,
        "memory_size": 4,
        "cnn_module_kernel": 5,
        "right_context_length": 8,
        "left_context_length": 8,
        "encoder_dim": 12,
    }
    metadata = {key: str(value) for key, value in numbers.items()} | {"model_type": "conv-emformer"}
    return Encoder(44, 32, states, metadata)


def nemo() -> Encoder:
    states = [
        State("cache_last_channel", "cache_last_channel_next", (-1, 2, 8, 12)),
        State("cache_last_time", "cache_last_time_next", (-1, 2, 12, 4)),
        State("cache_last_channel_len", "cache_last_channel_next_len", (-1,), TensorProto.INT64),
    ]
    numbers = {
        "window_size": 41,
        "chunk_shift": 32,
        "subsampling_factor": 8,
        "vocab_size": VOCABULARY - 1,
        "cache_last_channel_dim1": 2,
        "cache_last_channel_dim2": 8,
        "cache_last_channel_dim3": 12,
        "cache_last_time_dim1": 2,
        "cache_last_time_dim2": 12,
        "cache_last_time_dim3": 4,
    }
    metadata = {key: str(value) for key, value in numbers.items()}
    return Encoder(41, 32, states, metadata, 8, channels_first=True, lengths=True, output="logprobs")


TRANSDUCERS = {
    "zipformer2": zipformer2,
    "zipformer": zipformer,
    "conformer": conformer,
    "lstm": lstm,
    "conv-emformer": conv_emformer,
}
SYMBOLS = ("<blk>", "<sos/eos>", "<unk>")


def save_tokens(path: Path, vocabulary: int = VOCABULARY) -> None:
    """Word pieces, single letters and a few Chinese characters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*SYMBOLS, *(f"▁{c}" for c in letters[:12]), *letters[: vocabulary - 15 - 5], *"你好世界声"]
    lines = [f"{piece} {i}" for i, piece in enumerate(pieces[:vocabulary])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def save_transducer(folder: Path, family: str, *, half: bool = False, **options: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    encoder = TRANSDUCERS[family](**options)
    suffix = ".fp16" if half else ""
    save_encoder(folder / f"encoder-epoch-99-avg-1{suffix}.onnx", encoder, ctc=False, half=half)
    save_decoder(folder / "decoder-epoch-99-avg-1.onnx")
    save_joiner(folder / "joiner-epoch-99-avg-1.onnx")
    save_tokens(folder / "tokens.txt")
    return folder


def save_zipformer2_ctc(folder: Path, chunk: int = 32) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    encoder = zipformer2(chunk)
    encoder.output = "log_probs"
    save_encoder(folder / "ctc-epoch-20-avg-1-chunk-16-left-128.onnx", encoder, ctc=True)
    save_tokens(folder / "tokens.txt")
    return folder


def save_nemo_ctc(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_encoder(folder / "model.onnx", nemo(), ctc=True)
    save_tokens(folder / "tokens.txt")
    return folder


def save_wenet_ctc(folder: Path) -> Path:
    """Its caches have no batch axis, and a mask tells which part of them is filled."""
    folder.mkdir(parents=True, exist_ok=True)
    g = Graph(np.random.default_rng(5))
    blocks, heads, size, kernel = 2, 2, 12, 5
    attention = State("att_cache", "r_att_cache", (blocks, heads, 64, size // heads * 2))
    convolution = State("cnn_cache", "r_cnn_cache", (blocks, 1, size, kernel - 1))
    e = Encoder(67, 64, [attention, convolution], {}, processed="offset", output="log_probs")
    numbers = {
        "head": heads,
        "num_blocks": blocks,
        "output_size": size,
        "cnn_module_kernel": kernel,
        "right_context": 6,
        "subsampling_factor": 4,
        "vocab_size": VOCABULARY,
    }
    hidden = _encode(g, e)
    mask = g.op("Cast", "attn_mask", to=TensorProto.FLOAT)
    seen = g.op("ReduceMean", mask, axes=[1, 2], keepdims=1)
    required = g.op("Reshape", g.op("Cast", "required_cache_size", to=TensorProto.FLOAT), g.ints(1, 1, 1))
    scale = g.op("Mul", required, g.constant(np.array(1 / 64, np.float32)))
    hidden = g.add(hidden, g.linear(g.op("Mul", seen, scale), 1, DIM, gain=2.0))
    _log_probs(g, hidden, "log_probs")
    inputs = [
        _value("x", TensorProto.FLOAT, ["N", "T", BINS]),
        _value("offset", TensorProto.INT64, [1]),
        _value("required_cache_size", TensorProto.INT64, [1]),
        _value("att_cache", TensorProto.FLOAT, attention.shape),
        _value("cnn_cache", TensorProto.FLOAT, convolution.shape),
        _value("attn_mask", TensorProto.BOOL, [1, 1, "M"]),
    ]
    outputs = [
        _value("log_probs", TensorProto.FLOAT, ["N", "frames", VOCABULARY]),
        _value("r_att_cache", TensorProto.FLOAT, attention.shape),
        _value("r_cnn_cache", TensorProto.FLOAT, convolution.shape),
    ]
    metadata = {key: str(value) for key, value in numbers.items()}
    _save(folder / "model-streaming.onnx", g, inputs, outputs, metadata)
    save_tokens(folder / "tokens.txt")
    return folder


CTC = {
    "zipformer2-ctc": save_zipformer2_ctc,
    "nemo-ctc": save_nemo_ctc,
    "wenet-ctc": save_wenet_ctc,
}


def save(folder: Path, family: str) -> Path:
    """A whole folder by the name of a family; ``FAMILY-fp16`` and ``FAMILY-int8`` are smaller files of it."""
    name, _, precision = family.partition("+")
    if name in CTC:
        return CTC[name](folder)
    save_transducer(folder, name, half=precision == "fp16")
    if precision == "int8":
        _quantize(folder)
    return folder


def _quantize(folder: Path) -> None:
    """The usual set: encoder and joiner in int8, the decoder as it is."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    for role in ("encoder", "joiner"):
        file = next(folder.glob(f"{role}*.onnx"))
        quantize_dynamic(file, file.with_suffix(".int8.onnx"), weight_type=QuantType.QInt8)
        file.unlink()
