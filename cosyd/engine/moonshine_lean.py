"""Moonshine tiny's published files as two networks that do the same on a processor with half the work.

The published graphs spend most of a step on other things than arithmetic: heads of 36 are padded to 40 with
copies of all keys and values, masks that mask nothing and tables of angles are worked out again in every
step, and two thousand small operators do what some hundred can. Here the graphs are written anew, over the
same 8-bit weights and with ONNX Runtime's fused attention:

* ``encoder``  input_values [1, samples] -> ``present.LAYER.encoder.key|value`` [1, 8, frames, 36]: what the
  decoder's layers look at, instead of the hidden state from which it would make them; on a processor it also
  goes on where an earlier run ended (``moonshine_growing``);
* ``decoder``  input_ids [rows, tokens], ``past_key_values.*`` -> logits, ``present.LAYER.decoder.*`` longer
  by the tokens, ``attention.LAYER`` [1, 8, rows * tokens, frames]: any number of tokens after any past, also
  none, in one network.

Layers: Jeffries et al. 2024, arXiv:2410.15608; rotary positions on 32 of a head's 36 values, Su et al. 2021,
arXiv:2104.09864, in pairs of neighbours. The decoder's logits equal the published ones to rounding. The
encoder's values are some 5 % from the published one's, as far as both are from the same network in float32:
a difference in the last bit moves a value that is rounded to 8 bits, and that adds up over six layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.moonshine import (
    DECODER,
    HEAD_SIZE,
    HEADS,
    HIDDEN,
    LAYERS,
    attention,
    cache_names,
    past,
    present,
)
from cosyd.engine.quantised import Published, beside
from cosyd.engine.writer import CONTRIB, INT64, GraphWriter

ROTARY = 32  # values of a head that are turned
ROTARY_BASE = 10_000.0
FRAMES_LIMIT = 2_048  # positions: 49 s of audio
TOKENS_LIMIT = 1_024
SCALE = HEAD_SIZE**-0.5
EPSILON = 1e-5
ATTENTION = f"{CONTRIB}.MultiHeadAttention"


def decoder(folder: Path) -> bytes:
    """Raises ModelMissing, ModelDamaged."""
    return DecoderLayers(Published(folder / DECODER, DECODER)).file()


class _Layers:
    """What both networks are made of. ``_state`` is what flows around the layers, ``_normed`` into them."""

    def __init__(self, published: Published, positions: int, graph: GraphWriter | None = None) -> None:
        """``graph``: what writes the operators; None: as they are here."""
        self._published = published
        self._graph = graph or GraphWriter()
        angles = np.arange(positions)[:, None] * ROTARY_BASE ** (-np.arange(0, ROTARY, 2) / ROTARY)
        self._cos = self._graph.constant(np.cos(angles), np.float32)
        self._sin = self._graph.constant(np.sin(angles), np.float32)
        self._state = self._normed = ""

    def _norm_first(self, state: str, weight: str) -> None:
        self._state = state
        scale = self._graph.constant(self._published.constant(weight))
        self._normed = self._graph.add("LayerNormalization", state, scale, axis=-1, epsilon=EPSILON)

    def _add_and_norm(self, change: str, weight: str, output: str = "") -> None:
        scale = self._graph.constant(self._published.constant(weight))
        names = self._graph.add_many(
            f"{CONTRIB}.SkipLayerNormalization",
            [self._state, change, scale],
            [output, "", "", ""],
            epsilon=EPSILON,
        )
        self._normed, self._state = names[0], names[3]

    def _queries_keys_values(self, layer: str, first: str) -> list[str]:
        """Queries and keys, turned from position ``first`` on, and values."""
        graph = self._graph
        parts = [self._published.linear(f"{layer}/self_attn/{part}_proj/MatMul_output_0") for part in "qkv"]
        joint = beside(parts).write(graph, self._normed)
        both, values = graph.add_many("Split", [joint, graph.ints(2 * HIDDEN, HIDDEN)], ["", ""], axis=-1)
        turned = graph.add(
            f"{CONTRIB}.RotaryEmbedding",
            both,
            first,
            self._cos,
            self._sin,
            interleaved=1,
            num_heads=2 * HEADS,
            rotary_embedding_dim=ROTARY,
        )
        return [*graph.add_many("Split", [turned], ["", ""], axis=-1), values]

    def _linear(self, output: str, source: str) -> str:
        return self._published.linear(output).write(self._graph, source)


class EncoderLayers(_Layers):
    """Audio to the keys and values that the decoder's layers look at, all frames at once."""

    def __init__(self, published: Published, decoder: Published, graph: GraphWriter | None = None) -> None:
        super().__init__(published, FRAMES_LIMIT, graph)
        self._norm_first(self._convolved(), "layers.0.input_layernorm.weight")
        start = self._first_position()
        for index in range(LAYERS):
            self._layer(index, start)
        self._audio_keys(decoder)

    def file(self) -> bytes:
        return self._graph.file("moonshine-encoder")

    def _convolved(self) -> str:
        """Three convolutions -> [1, frames, 288]. Between the first two everything is brought to mean 0 and
        variance 1, which is done after the second: it is linear."""
        graph, published = self._graph, self._published
        samples = graph.add("Unsqueeze", graph.input("input_values", (1, "samples")), graph.ints(1))
        first = graph.constant(published.weight("/Tanh_output_0"))
        raw = graph.add("Tanh", graph.add("Conv", samples, first, strides=[64], kernel_shape=[127]))
        second = published.weight("/conv2/Conv_output_0").astype(np.float64)
        gain = published.weight("/groupnorm/Mul_output_0").astype(np.float64).reshape(1, -1, 1)
        offset = published.weight("/groupnorm/Add_output_0").astype(np.float64).reshape(1, -1, 1)
        bias = published.weight("/conv2/Conv_output_0", 2) + (second * offset).sum(axis=(1, 2))
        mean, inverse = self._moments(raw)
        weights = graph.constant(second * gain, np.float32)
        summed = graph.constant((second * gain).sum(axis=(1, 2)).reshape(1, -1, 1), np.float32)
        bent = graph.add("Conv", raw, weights, strides=[3], kernel_shape=[7])
        centred = graph.add("Sub", bent, graph.add("Mul", summed, mean))
        scaled = graph.add("Mul", centred, inverse)
        shifted = graph.add("Add", scaled, graph.constant(bias.reshape(1, -1, 1), np.float32))
        third = [graph.constant(published.weight("/conv3/Conv_output_0", index)) for index in (1, 2)]
        bent = graph.add("Conv", self._gelu(shifted), *third, strides=[2], kernel_shape=[3])
        return graph.add("Transpose", self._gelu(bent), perm=[0, 2, 1])

    def _moments(self, values: str) -> tuple[str, str]:
        """The mean and one over the standard deviation of all."""
        graph = self._graph
        mean = graph.add("ReduceMean", values, keepdims=1)
        squares = graph.add("ReduceMean", graph.add("Mul", values, values), keepdims=1)
        return mean, self._inverse_deviation(mean, squares)

    def _inverse_deviation(self, mean: str, squares: str) -> str:
        graph = self._graph
        variance = graph.add("Sub", squares, graph.add("Mul", mean, mean))
        deviation = graph.add("Sqrt", graph.add("Add", variance, graph.constant(EPSILON, np.float32)))
        return graph.add("Div", graph.constant(1.0, np.float32), deviation)

    def _gelu(self, values: str) -> str:
        return self._graph.add(f"{CONTRIB}.Gelu", values)

    def _first_position(self) -> str:
        return self._graph.ints(0)

    def _seen(self, index: int, keys: str, values: str) -> tuple[str, str]:
        """Keys and values of all frames that a frame looks at."""
        return keys, values

    def _layer(self, index: int, start: str) -> None:
        layer = f"layers.{index}"
        queries, keys, values = self._queries_keys_values(f"/{layer}", start)
        seen = self._seen(index, keys, values)
        heard = self._graph.add(ATTENTION, queries, *seen, num_heads=HEADS, scale=SCALE)
        change = self._linear(f"/{layer}/self_attn/o_proj/MatMul_output_0", heard)
        self._add_and_norm(change, f"{layer}.post_attention_layernorm.weight")
        wide = self._gelu(self._linear(f"/{layer}/mlp/fc1/Add_output_0", self._normed))
        change = self._linear(f"/{layer}/mlp/fc2/Add_output_0", wide)
        last = index == LAYERS - 1
        self._add_and_norm(
            change, "layer_norm.weight" if last else f"layers.{index + 1}.input_layernorm.weight"
        )

    def _audio_keys(self, decoder: Published) -> None:
        """What the decoder's layers look at: keys and values of all frames, [1, heads, frames, size] each."""
        graph = self._graph
        parts = [
            decoder.linear(f"/model/decoder/layers.{index}/encoder_attn/{kind}_proj/MatMul_output_0")
            for index in range(LAYERS)
            for kind in "kv"
        ]
        joint = beside(parts).write(graph, self._normed)
        by_head = graph.add("Reshape", joint, graph.ints(1, -1, len(parts) * HEADS, HEAD_SIZE))
        names = [present(name) for name in cache_names("encoder")]
        outputs = [graph.output(name, (1, HEADS, "frames", HEAD_SIZE)) for name in names]
        sizes = graph.ints(*[HEADS] * len(parts))
        graph.add_many("Split", [graph.add("Transpose", by_head, perm=[0, 2, 1, 3]), sizes], outputs, axis=1)


class DecoderLayers(_Layers):
    """Tokens, their cache and the audio's keys and values to logits and a longer cache."""

    _one_way = 1  # no token looks at a later one

    def __init__(self, published: Published) -> None:
        super().__init__(published, TOKENS_LIMIT)
        graph = self._graph
        self._ids = graph.input("input_ids", ("rows", "tokens"), INT64)
        for name in cache_names("decoder"):
            graph.input(past(name), ("rows", HEADS, "past", HEAD_SIZE))
        for name in cache_names("encoder"):
            graph.input(past(name), (1, HEADS, "frames", HEAD_SIZE))
        self._logits = graph.output("logits", ("rows", "tokens", "vocabulary"))
        self._start = graph.add("Shape", past("0.decoder.key"), start=2, end=3)
        rows = graph.add("Shape", self._ids)
        self._by_row = graph.add("Concat", rows, graph.ints(HIDDEN), axis=0)
        self._norm_first(self._embedded(), self._norm(0, "input_layernorm"))
        for index in range(LAYERS):
            self._layer(index)
        self._published.linear("logits").write(graph, self._normed, output=self._logits)

    def file(self) -> bytes:
        return self._graph.file("moonshine-decoder")

    def _norm(self, index: int, kind: str) -> str:
        return f"model.decoder.layers.{index}.{kind}.weight_merged_0"

    def _embedding(self) -> list[NDArray[Any]]:
        """Table, scale and zero point."""
        names = [f"model.decoder.embed_tokens.weight_merged_0_{part}" for part in _QUANTISED]
        return [self._published.constant(name) for name in names]

    def _embedded(self) -> str:
        table, scale, zero = map(self._graph.constant, self._embedding())
        return self._graph.add("DequantizeLinear", self._graph.add("Gather", table, self._ids), scale, zero)

    def _layer(self, index: int) -> None:
        layer = f"/model/decoder/layers.{index}"
        change = self._linear(f"{layer}/self_attn/o_proj/MatMul_output_0", self._said(index, layer))
        self._add_and_norm(change, self._norm(index, "post_attention_layernorm"))
        change = self._linear(f"{layer}/encoder_attn/o_proj/MatMul_output_0", self._heard(index, layer))
        self._add_and_norm(change, self._norm(index, "final_layernorm"))
        wide = self._linear(f"{layer}/mlp/fc1/Add_output_0", self._normed)
        value, gate = self._graph.add_many("Split", [wide], ["", ""], axis=-1)
        gate = self._graph.add(f"{CONTRIB}.QuickGelu", gate, alpha=1.0)  # x * sigmoid(x)
        change = self._linear(f"{layer}/mlp/fc2/Add_output_0", self._graph.add("Mul", gate, value))
        last = index == LAYERS - 1
        after = "model.decoder.norm.weight_merged_0" if last else self._norm(index + 1, "input_layernorm")
        self._add_and_norm(change, after)

    def _said(self, index: int, layer: str) -> str:
        """Attention to the tokens so far."""
        names = [f"{index}.decoder.{kind}" for kind in ("key", "value")]
        grown = [self._graph.output(present(name), ("rows", HEADS, "grown", HEAD_SIZE)) for name in names]
        inputs = [*self._queries_keys_values(layer, self._start), "", "", "", *self._cached(names)]
        return self._graph.add_many(
            ATTENTION, inputs, ["", *grown], num_heads=HEADS, unidirectional=self._one_way, scale=SCALE
        )[0]

    def _cached(self, names: Sequence[str]) -> list[str]:
        """Keys and values of the tokens before."""
        return [past(name) for name in names]

    def _heard(self, index: int, layer: str) -> str:
        """Attention to the audio, which is the same for all rows: their tokens are queries of one row."""
        graph = self._graph
        keys, values = (past(f"{index}.encoder.{kind}") for kind in ("key", "value"))
        queries = self._linear(f"{layer}/encoder_attn/q_proj/MatMul_output_0", self._normed)
        by_head = graph.add("Reshape", queries, graph.ints(1, -1, HEADS, HEAD_SIZE))
        by_head = graph.add("Transpose", by_head, perm=[0, 2, 1, 3])
        alike = graph.add(f"{CONTRIB}.FusedMatMul", by_head, keys, transB=1, alpha=SCALE)
        looks = graph.output(attention(index), (1, HEADS, "queries", "frames"))
        heard = graph.add("MatMul", graph.add("Softmax", alike, axis=-1, output=looks), values)
        return graph.add("Reshape", graph.add("Transpose", heard, perm=[0, 2, 1, 3]), self._by_row)


_QUANTISED = ("quantized", "scale", "zero_point")
