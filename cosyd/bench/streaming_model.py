"""A streaming zipformer2 of realistic size with random weights, to measure engines with: no recogniser.

Zipformer models are the users' own; what an engine makes of one does not depend on its weights. Layers here
have the tensors, caches and arithmetic of the family (feed-forward, attention over cached keys and values, a
convolution over its cached past), without its changes of frame rate in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 32  # feature frames a step, as models with 320 ms chunks have
WINDOW = CHUNK + 13
BINS = 80
VOCABULARY = 500
CONTEXT = 2
JOINER = 512


@dataclass(frozen=True)
class Size:
    """``layers`` of width ``dim``; ``left``: frames of cached context. ``damping``: of what layers and states
    add to the input: random weights make much of a last bit, which those of a trained model do not."""

    layers: int = 12
    dim: int = 256
    heads: int = 4
    query: int = 32
    value: int = 12
    kernel: int = 31
    left: int = 64
    damping: float = 1.0


@dataclass
class _Graph:
    size: Size
    rng: np.random.Generator
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    states: list[tuple[str, str, list[Any]]] = field(default_factory=list)

    def name(self) -> str:
        return f"t{len(self.nodes) + len(self.weights)}"

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        output = output or self.name()
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def linear(self, x: str, rows: int, columns: int, gain: float = 1.0, output: str | None = None) -> str:
        weight = (self.rng.standard_normal((rows, columns)) * gain / np.sqrt(rows)).astype(np.float32)
        return self.op("MatMul", x, self.constant(weight), output=output)

    def added(self, x: str, rows: int, columns: int, gain: float = 1.0) -> str:
        return self.linear(x, rows, columns, gain * self.size.damping)

    def state(self, name: str, shape: list[Any], value: str) -> None:
        """``value`` is what the state is after the step."""
        self.op("Identity", value, output=f"new_{name}")
        self.states.append((name, f"new_{name}", shape))

    def last(self, x: str, count: int, axis: int) -> str:
        return self.op("Slice", x, self.ints(-count), self.ints(2**31), self.ints(axis))


def _feed_forward(g: _Graph, x: str, scale: int = 4) -> str:
    dim = g.size.dim
    inner = g.op("Tanh", g.linear(x, dim, scale * dim))
    return g.op("Add", x, g.added(inner, scale * dim, dim, 0.5))


def _heads(g: _Graph, x: str, per_head: int) -> str:
    """[frames, N, heads * per_head] -> [N, heads, frames, per_head]."""
    split = g.op("Reshape", x, g.ints(0, 0, g.size.heads, per_head))
    return g.op("Transpose", split, perm=[1, 2, 0, 3])


def _attend(g: _Graph, x: str, layer: int) -> str:
    """Self-attention of x [N, frames, dim] over the cached keys and values and its own."""
    size = g.size
    by_frame = g.op("Transpose", x, perm=[1, 0, 2])
    caches = {"cached_key": size.query, "cached_val1": size.value}
    found = {}
    for cache, per_head in caches.items():
        width = size.heads * per_head
        name = f"{cache}_{layer}"
        both = g.op("Concat", name, g.linear(by_frame, size.dim, width), axis=0)
        g.state(name, [size.left, "N", width], g.last(both, size.left, 0))
        found[cache] = _heads(g, both, per_head)
    queries = _heads(g, g.linear(by_frame, size.dim, size.heads * size.query), size.query)
    keys = g.op("Transpose", found["cached_key"], perm=[0, 1, 3, 2])
    weights = g.op("Softmax", g.op("MatMul", queries, keys), axis=-1)
    heard = g.op("Transpose", g.op("MatMul", weights, found["cached_val1"]), perm=[0, 2, 1, 3])
    flat = g.op("Reshape", heard, g.ints(0, 0, size.heads * size.value))
    return g.op("Add", x, g.added(flat, size.heads * size.value, size.dim))


def _average(g: _Graph, x: str, cache: str, shape: list[Any], width: int) -> str:
    """A plain mean over cached frames and own ones, for the caches of the family's other two attentions."""
    dim = g.size.dim
    frames_first = g.op("Transpose", g.linear(x, dim, width), perm=[1, 0, 2])
    axis = 2 if len(shape) == 4 else 0
    fresh = frames_first
    if axis == 2:
        fresh = g.op("Unsqueeze", g.op("Transpose", frames_first, perm=[1, 0, 2]), g.ints(0))
    both = g.op("Concat", cache, fresh, axis=axis)
    g.state(cache, shape, g.last(both, g.size.left, axis))
    mean = g.op("ReduceMean", both, axes=[axis], keepdims=0)
    pooled = g.op("Reshape", mean, g.ints(-1, 1, width))
    return g.op("Add", x, g.added(pooled, width, dim))


def _convolve(g: _Graph, x: str, cache: str) -> str:
    """Depthwise over time, with half a kernel of cached past."""
    size = g.size
    past = size.kernel // 2
    by_channel = g.op("Transpose", g.added(x, size.dim, size.dim), perm=[0, 2, 1])
    both = g.op("Concat", cache, by_channel, axis=2)
    g.state(cache, ["N", size.dim, past], g.last(both, past, 2))
    weight = (g.rng.standard_normal((size.dim, 1, past + 1)) / np.sqrt(past)).astype(np.float32)
    out = g.op("Conv", both, g.constant(weight), group=size.dim)
    return g.op("Add", x, g.op("Transpose", g.op("Tanh", out), perm=[0, 2, 1]))


def _layer(g: _Graph, x: str, layer: int) -> str:
    size = g.size
    x = _attend(g, _feed_forward(g, x), layer)
    # In the order in which the family lists its tensors: sherpa-onnx and cosyd take them by position.
    key, value = g.states[-2:]
    del g.states[-2:]
    x = _average(
        g, x, f"cached_nonlin_attn_{layer}", [1, "N", size.left, 3 * size.dim // 4], 3 * size.dim // 4
    )
    nonlin = g.states.pop()
    width = size.heads * size.value
    x = _average(g, _feed_forward(g, x), f"cached_val2_{layer}", [size.left, "N", width], width)
    second = g.states.pop()
    g.states += [key, nonlin, value, second]
    x = _convolve(g, x, f"cached_conv1_{layer}")
    return _normed(g, _convolve(g, _feed_forward(g, x), f"cached_conv2_{layer}"))


def _normed(g: _Graph, x: str) -> str:
    """Each frame with mean square 1. Without it a last bit grows from layer to layer until it changes what is
    said, and no two engines could be compared."""
    power = g.op("ReduceMean", g.op("Mul", x, x), axes=[2], keepdims=1)
    return g.op("Div", x, g.op("Sqrt", g.op("Add", power, g.constant(np.float32(1e-5)))))


def _front(g: _Graph) -> str:
    """[N, CHUNK / 2, dim] of the features; its convolutions' cache is read and written."""
    x = g.op("Slice", "x", g.ints(0), g.ints(CHUNK), g.ints(1))
    pairs = g.op("Reshape", x, g.ints(0, CHUNK // 2, 2 * BINS))
    scaled = g.op("Mul", pairs, g.constant(np.float32(0.1)))
    flat = g.op("Reshape", "embed_states", g.ints(0, 1, 128 * 3 * 19))
    past = g.added(g.op("Slice", flat, g.ints(0), g.ints(256), g.ints(2)), 256, g.size.dim)
    return g.op("Tanh", g.op("Add", g.linear(scaled, 2 * BINS, g.size.dim), past))


def _encoder(size: Size, seed: int = 0) -> tuple[_Graph, str]:
    g = _Graph(size, np.random.default_rng(seed))
    x = _front(g)
    for layer in range(size.layers):
        x = _layer(g, x, layer)
    every_other = g.op("Slice", x, g.ints(0), g.ints(2**31), g.ints(1), g.ints(2))
    mean = g.op("ReduceMean", x, axes=[1], keepdims=0)
    news = g.added(mean, size.dim, 128 * 3)
    spread = g.op("Tile", g.op("Reshape", news, g.ints(-1, 128, 3, 1)), g.ints(1, 1, 1, 19))
    g.state("embed_states", ["N", 128, 3, 19], g.op("Tanh", spread))
    g.op("Add", "processed_lens", g.ints(CHUNK), output="new_processed_lens")
    g.states.append(("processed_lens", "new_processed_lens", ["N"]))
    return g, every_other


def _metadata(size: Size) -> dict[str, str]:
    return {
        "model_type": "zipformer2",
        "T": str(WINDOW),
        "decode_chunk_len": str(CHUNK),
        "encoder_dims": str(size.dim),
        "query_head_dims": str(size.query),
        "value_head_dims": str(size.value),
        "num_heads": str(size.heads),
        "num_encoder_layers": str(size.layers),
        "cnn_module_kernels": str(size.kernel),
        "left_context_len": str(size.left),
    }


def _save(path: Path, g: _Graph, inputs: list[Any], outputs: list[Any], metadata: dict[str, str]) -> None:
    import onnx
    from onnx import helper

    graph = helper.make_graph(g.nodes, "measured", inputs, outputs, g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.save(model, path)


def save_ctc(folder: Path, size: Size | None = None) -> Path:
    """A folder of a zipformer2 CTC model."""
    g, x = _encoder(size or Size())
    bias = np.zeros(VOCABULARY, np.float32)
    bias[0] = 6.0  # most frames of speech are blanks
    logits = g.op("Add", g.linear(x, g.size.dim, VOCABULARY, 4.0), g.constant(bias))
    g.op("LogSoftmax", logits, axis=-1, output="log_probs")
    return _save_encoder(folder, "model.onnx", g, "log_probs", VOCABULARY)


def save_transducer(folder: Path, size: Size | None = None) -> Path:
    """A folder of a zipformer2 transducer."""
    g, x = _encoder(size or Size())
    g.linear(x, g.size.dim, JOINER, 2.0, output="encoder_out")
    _save_encoder(folder, "encoder.onnx", g, "encoder_out", JOINER)
    _save_decoder(folder)
    _save_joiner(folder)
    return folder


def _save_encoder(folder: Path, name: str, g: _Graph, output: str, width: int) -> Path:
    from onnx import TensorProto, helper

    folder.mkdir(parents=True, exist_ok=True)

    def tensor(name: str, shape: list[Any]) -> Any:
        kind = TensorProto.INT64 if "processed_lens" in name else TensorProto.FLOAT
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [tensor("x", ["N", WINDOW, BINS]), *(tensor(s, shape) for s, _, shape in g.states)]
    outputs = [tensor(output, ["N", CHUNK // 4, width]), *(tensor(t, shape) for _, t, shape in g.states)]
    _save(folder / name, g, inputs, outputs, _metadata(g.size))
    lines = ["<blk> 0", "<sos/eos> 1", "<unk> 2", *(f"▁w{i} {i}" for i in range(3, VOCABULARY))]
    (folder / "tokens.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _save_decoder(folder: Path) -> None:
    from onnx import TensorProto, helper

    g = _Graph(Size(), np.random.default_rng(1))
    table = g.constant(g.rng.standard_normal((VOCABULARY, JOINER)).astype(np.float32))
    known = g.op("Max", "y", g.constant(np.int64(0)))
    embedded = g.op("Reshape", g.op("Gather", table, known, axis=0), g.ints(-1, CONTEXT * JOINER))
    g.linear(embedded, CONTEXT * JOINER, JOINER, output="decoder_out")
    y = helper.make_tensor_value_info("y", TensorProto.INT64, ["N", CONTEXT])
    out = helper.make_tensor_value_info("decoder_out", TensorProto.FLOAT, ["N", JOINER])
    _save(
        folder / "decoder.onnx", g, [y], [out], {"context_size": str(CONTEXT), "vocab_size": str(VOCABULARY)}
    )


def _save_joiner(folder: Path) -> None:
    from onnx import TensorProto, helper

    g = _Graph(Size(), np.random.default_rng(2))
    hidden = g.op("Tanh", g.op("Add", "encoder_out", "decoder_out"))
    bias = np.zeros(VOCABULARY, np.float32)
    bias[0] = 7.5  # four tokens a second, as in speech
    g.op("Add", g.linear(hidden, JOINER, VOCABULARY, 2.5), g.constant(bias), output="logit")
    names = ("encoder_out", "decoder_out")
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", JOINER]) for n in names]
    out = helper.make_tensor_value_info("logit", TensorProto.FLOAT, ["N", VOCABULARY])
    _save(folder / "joiner.onnx", g, inputs, [out], {"joiner_dim": str(JOINER)})
