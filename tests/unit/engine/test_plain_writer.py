"""ONNX Runtime's own operators, written out, compute what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.plain_writer import PlainWriter
from cosyd.engine.writer import CONTRIB, GraphWriter

HEADS, SIZE, TURNED, TOKENS = 2, 6, 4, 3
WIDTH = HEADS * SIZE
RNG = np.random.default_rng(1)
Describe = Callable[[GraphWriter], None]


def described(name: str) -> Describe:
    """The operator over inputs a, b, c … as the networks use it."""
    row = ("rows", "tokens", WIDTH)

    def norm(graph: GraphWriter) -> None:
        scale = graph.constant(np.linspace(0.5, 2, WIDTH), np.float32)
        names = [graph.output("y", row), "", "", graph.output("sum", row)]
        inputs = [graph.input("a", row), graph.input("b", row), scale]
        graph.add_many(f"{CONTRIB}.SkipLayerNormalization", inputs, names, epsilon=1e-5)

    def gelu(graph: GraphWriter) -> None:
        graph.add(f"{CONTRIB}.Gelu", graph.input("a", row), output=graph.output("y", row))

    def quick_gelu(graph: GraphWriter) -> None:
        graph.add(f"{CONTRIB}.QuickGelu", graph.input("a", row), output=graph.output("y", row), alpha=1.0)

    def product(graph: GraphWriter) -> None:
        shape = (1, HEADS, "tokens", SIZE)
        inputs = graph.input("a", shape), graph.input("b", shape)
        output = graph.output("y", (1, HEADS, "tokens", "tokens"))
        graph.add(f"{CONTRIB}.FusedMatMul", *inputs, output=output, transB=1, alpha=0.25)

    def rotary(graph: GraphWriter) -> None:
        angles = np.arange(16)[:, None] * 0.3 ** np.arange(TURNED // 2)
        tables = [graph.constant(table(angles), np.float32) for table in (np.cos, np.sin)]
        inputs = [graph.input("a", row), graph.ints(5), *tables]
        graph.add(
            f"{CONTRIB}.RotaryEmbedding",
            *inputs,
            output=graph.output("y", row),
            interleaved=1,
            num_heads=HEADS,
            rotary_embedding_dim=TURNED,
        )

    def attend(graph: GraphWriter, cached: bool, one_way: int) -> None:
        inputs = [graph.input(name, row) for name in "abc"]
        held = ("rows", HEADS, "past", SIZE)
        cache = [graph.input(name, held) for name in ("past_key", "past_value")] if cached else []
        grown = [graph.output(name, ("rows", HEADS, "grown", SIZE)) for name in ("key", "value")]
        outputs = [graph.output("y", row), *grown]
        inputs += ["", "", "", *cache] if cache else []
        operator = f"{CONTRIB}.MultiHeadAttention"
        graph.add_many(operator, inputs, outputs, num_heads=HEADS, unidirectional=one_way, scale=0.3)

    makers: dict[str, Describe] = {
        "norm": norm,
        "gelu": gelu,
        "quick gelu": quick_gelu,
        "product": product,
        "rotary": rotary,
        "attention": lambda graph: attend(graph, False, 0),
        "attention, one way": lambda graph: attend(graph, False, 1),
        "attention, cached": lambda graph: attend(graph, True, 0),
    }
    return makers[name]


class Heads(PlainWriter):
    def add_many(self, operator: str, inputs: Any, outputs: Any, **given: Any) -> list[str]:
        if operator.endswith((".RotaryEmbedding", ".MultiHeadAttention")):
            given["head_size"] = SIZE
        return super().add_many(operator, inputs, outputs, **given)


@pytest.mark.parametrize(
    "name",
    ["norm", "gelu", "quick gelu", "product", "rotary", "attention", "attention, one way"],
)
def test_an_operator_written_out_gives_the_same(name: str) -> None:
    files = []
    for graph in (GraphWriter(), Heads()):
        described(name)(graph)
        files.append(graph.file(name))
    compare(*files)


def test_a_cache_grows_alike() -> None:
    """A token at a time looks at all there is, one way or not."""
    fused, plain = GraphWriter(), Heads()
    described("attention, cached")(fused)
    described("attention, cached")(plain)
    compare(fused.file("fused"), plain.file("plain"), tokens=1)


def test_an_8_bit_layer_is_dequantised() -> None:
    weight = RNG.integers(0, 256, (8, 6)).astype(np.uint8)
    scale, zero = np.float32(0.02), np.uint8(131)
    bias = RNG.standard_normal(6).astype(np.float32)
    graph = PlainWriter()
    constants = [graph.constant(value) for value in (weight, scale, zero, bias)]
    source, output = graph.input("a", ("n", 8)), graph.output("y", ("n", 6))
    graph.add(f"{CONTRIB}.DynamicQuantizeMatMul", source, *constants, output=output)
    data = graph.file("layer")
    assert len(onnx.load_model_from_string(data).graph.initializer) == 2, "the 8-bit weights are gone"
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    with open_ort_cpu(data) as engine:
        got = engine.run({"a": x})["y"]
    real = (weight.astype(float) - 131) * 0.02
    np.testing.assert_allclose(got, x @ real + bias, rtol=1e-5, atol=1e-5)


def test_axes_are_renamed_and_what_is_inside_is_no_output() -> None:
    graph = PlainWriter({"rows": 1, "grown": "tokens"}, inside=["deep"])
    x = graph.input("x", ("rows", "grown"))
    deep = graph.add("Sigmoid", x, output=graph.output("deep", ("rows",)))
    graph.add("Neg", deep, output=graph.output("y", ("rows", "grown")))
    with open_ort_cpu(graph.file("named")) as engine:
        assert [(spec.name, spec.shape) for spec in engine.inputs] == [("x", (1, "tokens"))]
        assert [(spec.name, spec.shape) for spec in engine.outputs] == [("y", (1, "tokens"))]


def compare(fused: bytes, plain: bytes, tokens: int = TOKENS) -> None:
    model = onnx.load_model_from_string(plain)
    assert {node.domain for node in model.graph.node} == {""}
    onnx.checker.check_model(model)
    with open_ort_cpu(fused) as one, open_ort_cpu(plain) as other:
        sizes = {"rows": 2, "tokens": tokens, "past": 4}
        feeds = {s.name: RNG.standard_normal(s.sized(sizes)).astype(np.float32) for s in one.inputs}
        expected, got = one.run(feeds), other.run(feeds)
    assert expected.keys() == got.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
