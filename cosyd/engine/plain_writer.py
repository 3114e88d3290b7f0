"""Writes ONNX Runtime's own operators out in standard ONNX, and 8-bit layers in float32, as they are added.

For networks that ``moonshine_lean`` describes with fused operators, on engines that know none of them.
Semantics: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.quantised import dequantised
from cosyd.engine.writer import CONTRIB, FLOAT, GraphWriter, Shape

Array = NDArray[Any]
Names = Sequence[str]


class PlainWriter(GraphWriter):
    """``axes``: other names or lengths for axes of inputs and outputs; ``inside``: what is no output here."""

    def __init__(self, axes: Mapping[str, int | str] | None = None, inside: Sequence[str] = ()) -> None:
        super().__init__()
        self._axes, self._inside = dict(axes or {}), frozenset(inside)
        self._shared: dict[tuple[str, ...], Any] = {}  # what all layers need once
        self._rules: dict[str, Callable[[Names, Names, dict[str, Any]], list[str]]] = {
            "DynamicQuantizeMatMul": self._layer,
            "SkipLayerNormalization": self._add_and_norm,
            "Gelu": self._gelu,
            "QuickGelu": self._quick_gelu,
            "FusedMatMul": self._product_transposed,
            "RotaryEmbedding": self._turn,
            "MultiHeadAttention": self._attend,
        }

    def input(self, name: str, shape: Shape, kind: int = FLOAT) -> str:
        return super().input(name, self._named(shape), kind)

    def output(self, name: str, shape: Shape) -> str:
        return name if name in self._inside else super().output(name, self._named(shape))

    def _named(self, shape: Shape) -> list[int | str]:
        return [self._axes.get(axis, axis) if isinstance(axis, str) else axis for axis in shape]

    def add_many(self, operator: str, inputs: Names, outputs: Names, **attributes: Any) -> list[str]:
        domain, _, kind = operator.rpartition(".")
        if domain != CONTRIB:
            return super().add_many(operator, inputs, outputs, **attributes)
        return self._rules[kind](inputs, outputs, attributes)

    def file(self, name: str) -> bytes:
        """Without what was only there to be written out."""
        read = {each for node in self._nodes for each in node.input}
        self._constants = {key: value for key, value in self._constants.items() if key in read}
        return super().file(name)

    # --- one rule an operator --------------------------------------------------------------------------

    def _layer(self, inputs: Names, outputs: Names, given: dict[str, Any]) -> list[str]:
        """Source, weight, scale, zero, perhaps bias: the weight as float32, the source as it is."""
        source, *names = inputs
        weight, scale, zero, *bias = (self._constants[name] for name in names)
        real = dequantised(weight, scale, zero)
        if not bias:
            return [self.add("MatMul", source, self.constant(real, np.float32), output=outputs[0])]
        product = self.add("MatMul", source, self.constant(real, np.float32))
        return [self.add("Add", product, self.constant(bias[0], np.float32), output=outputs[0])]

    def _add_and_norm(self, inputs: Names, outputs: Names, given: dict[str, Any]) -> list[str]:
        """The fourth output is the sum."""
        state, change, scale = inputs
        total = self.add("Add", state, change, output=outputs[3])
        epsilon = given["epsilon"]
        normed = self.add("LayerNormalization", total, scale, axis=-1, epsilon=epsilon, output=outputs[0])
        return [normed, "", "", total]

    def _gelu(self, inputs: Names, outputs: Names, given: dict[str, Any]) -> list[str]:
        """x / 2 (1 + erf(x / sqrt 2))."""
        (x,) = inputs
        error = self.add("Erf", self.add("Mul", x, self._number(math.sqrt(0.5))))
        gated = self.add("Mul", x, self.add("Add", error, self._number(1.0)))
        return [self.add("Mul", gated, self._number(0.5), output=outputs[0])]

    def _quick_gelu(self, inputs: Names, outputs: Names, given: dict[str, Any]) -> list[str]:
        """x sigmoid(x)."""
        (x,) = inputs
        assert given["alpha"] == 1.0
        return [self.add("Mul", x, self.add("Sigmoid", x), output=outputs[0])]

    def _product_transposed(self, inputs: Names, outputs: Names, given: dict[str, Any]) -> list[str]:
        """alpha A Bᵀ over the last two of four axes."""
        a, b = inputs
        scaled = self.add("Mul", a, self._number(given["alpha"]))
        return [self.add("MatMul", scaled, self.add("Transpose", b, perm=[0, 1, 3, 2]), output=outputs[0])]

    def _turn(self, inputs: Names, outputs: Names, given: dict[str, Any]) -> list[str]:
        """Neighbours (a, b) of each head's first values become (a cos - b sin, b cos + a sin); [rows, tokens,
        heads * size], whose first token is at a position that is counted at run time."""
        x, first, cos, sin = inputs
        heads, turned = given["num_heads"], given["rotary_embedding_dim"]
        size = given["head_size"]
        cosine, sine = self._angles(x, first, cos, sin, size - turned)
        swap = np.zeros((size, size), np.float32)
        for a in range(0, turned, 2):
            swap[a + 1, a], swap[a, a + 1] = -1.0, 1.0
        by_head = self.add("Reshape", x, self.ints(0, 0, heads, size))
        across = self.add("MatMul", by_head, self._once("swap", lambda: self.constant(swap)))
        kept, added = self.add("Mul", by_head, cosine), self.add("Mul", across, sine)
        flat = self.add("Add", kept, added)
        return [self.add("Reshape", flat, self.ints(0, 0, heads * size), output=outputs[0])]

    def _angles(self, x: str, first: str, cos: str, sin: str, rest: int) -> tuple[str, str]:
        """[tokens, 1, size] each, for all layers."""

        def make() -> tuple[str, str]:
            count = self.add("Shape", x, start=1, end=2)
            end = self.add("Add", first, count)
            tables = ((cos, 1.0), (sin, 0.0))
            made = []
            for name, otherwise in tables:
                wide = np.repeat(self._constants[name], 2, axis=1)
                wide = np.pad(wide, ((0, 0), (0, rest)), constant_values=otherwise)[:, None]
                made.append(self.add("Slice", self.constant(wide, np.float32), first, end, self.ints(0)))
            return made[0], made[1]

        angles: tuple[str, str] = self._once(f"angles {first} {cos}", make)
        return angles

    def _attend(self, inputs: Names, outputs: Names, given: dict[str, Any]) -> list[str]:
        """Queries, keys, values [rows, tokens, heads * size], three that are left out, perhaps a cache."""
        queries, keys, values, *more = inputs
        cache = [name for name in more if name]
        names = [*outputs, "", "", ""]
        grown = ["", ""] if cache else names[1:3]
        query, key, value = (
            self._by_head(name, given["num_heads"], given["head_size"], output)
            for name, output in zip((queries, keys, values), ("", *grown), strict=True)
        )
        if cache:
            key = self.add("Concat", cache[0], key, axis=2, output=names[1])
            value = self.add("Concat", cache[1], value, axis=2, output=names[2])
        scaled = self.add("Mul", query, self._number(given["scale"]))
        alike = self.add("MatMul", scaled, self.add("Transpose", key, perm=[0, 1, 3, 2]))
        if given.get("unidirectional"):
            assert not cache, "tokens after a cache come one at a time"
            alike = self.add("Add", alike, self._once("mask", lambda: self._later_tokens(queries)))
        heard = self.add("MatMul", self.add("Softmax", alike, axis=-1), value)
        side_by_side = self.add("Transpose", heard, perm=[0, 2, 1, 3])
        width = given["num_heads"] * given["head_size"]
        flat = self.add("Reshape", side_by_side, self.ints(0, 0, width), output=outputs[0])
        return [flat, key, value][: len(outputs)]

    def _by_head(self, name: str, heads: int, size: int, output: str) -> str:
        apart = self.add("Reshape", name, self.ints(0, 0, heads, size))
        return self.add("Transpose", apart, perm=[0, 2, 1, 3], output=output)

    def _later_tokens(self, queries: str) -> str:
        """[tokens, tokens]: far below zero where a token would look at a later one."""
        count = self.add("Shape", queries, start=1, end=2)
        ends = self.add("Concat", count, count, axis=0)
        mask = np.triu(np.full((MOST_TOKENS, MOST_TOKENS), -1e9, np.float32), 1)
        return self.add("Slice", self.constant(mask), self.ints(0, 0), ends, self.ints(0, 1))

    # --- helpers ---------------------------------------------------------------------------------------

    def _number(self, value: float) -> str:
        name: str = self._once(f"number {value}", lambda: self.constant(value, np.float32))
        return name

    def _once(self, key: str, make: Callable[[], Any]) -> Any:
        if (key,) not in self._shared:
            self._shared[key,] = make()
        return self._shared[key,]


MOST_TOKENS = 512  # in a run without a cache: 30 s of speech are 200, what was said before comes on top
