"""Moonshine's three networks for a GPU, written anew in standard ONNX and float32 (see ``moonshine``).

The same layers as the processor's (``moonshine_lean``), of which a step takes some 250 operators; the
published graphs have 2,000, and launching them is what a step on a large GPU consists of.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.engine.moonshine import (
    DECODER,
    ENCODER,
    HEAD_SIZE,
    HEADS,
    HIDDEN,
    LAYERS,
    ROW_INPUT,
    VOCABULARY,
    attention,
    cache_names,
    past,
)
from cosyd.engine.moonshine_lean import TOKENS_LIMIT, DecoderLayers, EncoderLayers
from cosyd.engine.plain_writer import PlainWriter
from cosyd.engine.quantised import Published, dequantised
from cosyd.engine.writer import INT64


class _Heads(PlainWriter):
    """Knows the size of a head, which the fused operators find out from other things."""

    def add_many(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **given: Any
    ) -> list[str]:
        if operator.endswith((".RotaryEmbedding", ".MultiHeadAttention")):
            given["head_size"] = HEAD_SIZE
        return super().add_many(operator, inputs, outputs, **given)


def encoder(folder: Path) -> bytes:
    """input_values [1, samples] -> present.LAYER.encoder.key|value [1, heads, frames, size]."""
    published = Published(folder / ENCODER, ENCODER), Published(folder / DECODER, DECODER)
    return EncoderLayers(*published, graph=_Heads()).file()


def first(folder: Path) -> bytes:
    """input_ids [1, tokens], past_key_values.LAYER.encoder.* -> logits [1, tokens, vocabulary],
    present.LAYER.decoder.* , attention.LAYER [1, heads, tokens, frames]."""
    return _First(Published(folder / DECODER, DECODER)).file()


def following(folder: Path) -> bytes:
    """input_ids [rows, 1], cache_rows [rows], past_key_values.* -> logits [rows, 1, vocabulary],
    present.LAYER.decoder.* one token longer."""
    return _Following(Published(folder / DECODER, DECODER)).file()


class _Plain(DecoderLayers):
    """Of either decoder network. ``rows``, ``tokens``: of its input."""

    def __init__(self, published: Published, graph: PlainWriter, rows: int | str, tokens: int | str) -> None:
        super(DecoderLayers, self).__init__(published, TOKENS_LIMIT, graph)
        self._ids = graph.input("input_ids", (rows, tokens), INT64)
        for name in cache_names("encoder"):
            graph.input(past(name), (1, HEADS, "frames", HEAD_SIZE))
        self._logits = graph.output("logits", (rows, tokens, VOCABULARY))
        self._begin(graph)
        self._norm_first(self._embedded(), self._norm(0, "input_layernorm"))
        for index in range(LAYERS):
            self._layer(index)
        self._published.linear("logits").write(graph, self._normed, output=self._logits)

    def _begin(self, graph: PlainWriter) -> None:
        """Set ``_start``, the position of the first token, and ``_by_row``, the shape of what was heard."""
        raise AssertionError("each network has its own")

    def _embedded(self) -> str:
        table, scale, zero = self._embedding()
        real = dequantised(table, scale, zero)
        return self._graph.add("Gather", self._graph.constant(real, np.float32), self._ids)


class _First(_Plain):
    def __init__(self, published: Published) -> None:
        axes: dict[str, int | str] = {"rows": 1, "grown": "tokens", "queries": "tokens"}
        super().__init__(published, _Heads(axes), 1, "tokens")

    def _begin(self, graph: PlainWriter) -> None:
        self._start = graph.ints(0)
        self._by_row = graph.ints(1, -1, HIDDEN)

    def _cached(self, names: Sequence[str]) -> list[str]:
        return []


class _Following(_Plain):
    def __init__(self, published: Published) -> None:
        inside = [attention(index) for index in range(LAYERS)]
        super().__init__(published, _Heads(inside=inside), "rows", 1)

    def _begin(self, graph: PlainWriter) -> None:
        rows = graph.input(ROW_INPUT, ("rows",), INT64)
        self._picked = {}
        for name in cache_names("decoder"):
            held = graph.input(past(name), ("beam", HEADS, "past", HEAD_SIZE))
            self._picked[name] = graph.add("Gather", held, rows, axis=0)
        self._start = graph.add("Shape", past("0.decoder.key"), start=2, end=3)
        self._by_row = graph.ints(-1, 1, HIDDEN)
        self._one_way = 0  # a token at a time looks at all there is

    def _cached(self, names: Sequence[str]) -> list[str]:
        return [self._picked[name] for name in names]
