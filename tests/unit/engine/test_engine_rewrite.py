"""Networks rewritten for TensorRT give what they gave before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cosyd.engine.contrib import replace_contrib
from cosyd.engine.graphs import Weights, fold_shapes, graphs_of, parse
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.rewrite import plain_network
from cosyd.engine.shipped import SILERO_RATE, silero
from cosyd.errors import ModelDamaged, ModelMissing

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"


def operators(data: bytes) -> set[str]:
    return {node.op_type for graph in graphs_of(parse(data, "test").graph) for node in graph.node}


# --- whole networks ----------------------------------------------------------------------------------------


def test_silero_gives_the_same_probabilities(models_dir: Path) -> None:
    path = models_dir / "silero-vad-6" / "silero_vad_16k_op15.onnx"
    rewritten = silero(path)
    assert "If" not in operators(rewritten)
    rng = np.random.default_rng(0)
    with open_ort_cpu(path) as published, open_ort_cpu(rewritten) as plain:
        for n in (1, 3, 32):
            ours = theirs = np.zeros((2, n, 128), np.float32)
            for _ in range(10):
                x = rng.standard_normal((n, 576)).astype(np.float32) * 0.1
                expected = published.run({"input": x, "state": theirs, "sr": SILERO_RATE})
                got = plain.run({"input": x, "state": ours})
                np.testing.assert_allclose(got["output"], expected["output"], atol=1e-6)
                theirs, ours = expected["stateN"], got["stateN"]


def test_a_missing_file_and_a_wrong_input_are_told(tmp_path: Path, models_dir: Path) -> None:
    with pytest.raises(ModelMissing, match=r"none\.onnx: not there"):
        plain_network(tmp_path / "none.onnx")
    path = models_dir / "dtln" / "model_1.onnx"
    with pytest.raises(ModelDamaged, match="no input 'sr'; there are input_2, input_3"):
        plain_network(path, inputs={"sr": SILERO_RATE})
    with pytest.raises(ModelDamaged, match="no output y"):
        plain_network(path, outputs=["y"])


# --- operators of ONNX Runtime -----------------------------------------------------------------------------


def quantised(rng: np.random.Generator, shape: tuple[int, int]) -> dict[str, Array]:
    return {
        "B": rng.integers(0, 256, shape).astype(np.uint8),
        "scale": np.array(0.02, np.float32),
        "zero": np.array(131, np.uint8),
        "bias": rng.standard_normal(shape[1]).astype(np.float32),
    }


def network(nodes: list[Any], x_shape: list[int], y_shape: list[Any], weights: dict[str, Array]) -> bytes:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "test",
        [value("x", TensorProto.FLOAT, x_shape)],
        [value("y", TensorProto.FLOAT, y_shape)],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def on_the_grid(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values that rounding to 8 bits does not change: multiples of the step, the extremes among them."""
    values = rng.integers(-100, 156, shape).astype(np.float32)
    values.flat[0], values.flat[1] = -100, 155
    return values


def cases() -> dict[str, bytes]:
    make, rng = helper.make_node, np.random.default_rng(3)
    q = quantised(rng, (8, 6))
    gain = {"gamma": rng.standard_normal(8).astype(np.float32), "beta": np.ones(8, np.float32)}
    attend = {"K": rng.standard_normal((1, 2, 5, 8)).astype(np.float32)}
    conv = {"W": rng.standard_normal((3, 1, 3)).astype(np.float32)}
    return {
        "Gelu": network([make("Gelu", ["x"], ["y"], domain=MICROSOFT)], [4, 8], [4, 8], {}),
        "QuickGelu": network(
            [make("QuickGelu", ["x"], ["y"], domain=MICROSOFT, alpha=1.0)], [4, 8], [4, 8], {}
        ),
        "FusedMatMul": network(
            [make("FusedMatMul", ["x", "K"], ["y"], domain=MICROSOFT, alpha=0.25, transB=1)],
            [1, 2, 4, 8],
            [1, 2, 4, 5],
            attend,
        ),
        "FusedConv": network(
            [make("FusedConv", ["x", "W"], ["y"], domain=MICROSOFT, activation="Tanh", strides=[2])],
            [1, 1, 16],
            [1, 3, 7],
            conv,
        ),
        "SkipLayerNormalization": network(
            [
                make(
                    "SkipLayerNormalization",
                    ["x", "x", "gamma", "beta"],
                    ["y"],
                    domain=MICROSOFT,
                    epsilon=1e-5,
                )
            ],
            [1, 4, 8],
            [1, 4, 8],
            gain,
        ),
        "DynamicQuantizeMatMul": network(
            [make("DynamicQuantizeMatMul", ["x", "B", "scale", "zero", "bias"], ["y"], domain=MICROSOFT)],
            [4, 8],
            [4, 6],
            q,
        ),
        "MatMulIntegerToFloat": network(
            [
                make("DynamicQuantizeLinear", ["x"], ["a", "a_scale", "a_zero"]),
                make(
                    "MatMulIntegerToFloat",
                    ["a", "B", "a_scale", "scale", "a_zero", "zero", "bias"],
                    ["y"],
                    domain=MICROSOFT,
                ),
            ],
            [4, 8],
            [4, 6],
            q,
        ),
    }


@pytest.mark.parametrize("name", cases())
def test_an_operator_of_onnx_runtime_is_written_out(name: str) -> None:
    data = cases()[name]
    with open_ort_cpu(data) as fused:
        shape = tuple(int(axis) for axis in fused.inputs[0].shape)
        x = on_the_grid(np.random.default_rng(5), shape)
        x = x if "Quantize" in name or "Integer" in name else x / 50
        expected = fused.run({"x": x})["y"]
    model = parse(data, "test")
    weights = Weights.of(model)
    replace_contrib(model, weights)
    weights.put_back(model)
    assert all(node.domain == "" for node in model.graph.node)
    assert "DynamicQuantizeLinear" not in {node.op_type for node in model.graph.node}
    onnx.checker.check_model(model)
    with open_ort_cpu(model.SerializeToString()) as plain:
        got = plain.run({"x": x})["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * float(np.abs(expected).max()))


def test_an_operator_without_a_rule_is_named() -> None:
    data = network([helper.make_node("Attention", ["x"], ["y"], domain=MICROSOFT)], [4, 8], [4, 8], {})
    with pytest.raises(ModelDamaged, match=r"com\.microsoft\.Attention has no standard form"):
        model = parse(data, "test")
        replace_contrib(model, Weights.of(model))


def test_only_what_is_known_of_a_shape_is_folded() -> None:
    """x [n, 8]: its second length and the number of its axes are known, its first is not."""
    make, whole = helper.make_node, TensorProto.INT64
    nodes = [
        make("Shape", ["x"], ["shape"]),
        make("Gather", ["shape", "one"], ["known"]),
        make("Gather", ["shape", "none"], ["free"]),
        make("Size", ["shape"], ["axes"]),
    ]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info(name, whole, []) for name in ("known", "free", "axes")],
        [numpy_helper.from_array(np.array(i), name) for i, name in enumerate(("none", "one"))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert fold_shapes(model) == 2
    kinds = {node.output[0]: node.op_type for node in model.graph.node}
    assert kinds == {"shape": "Shape", "known": "Constant", "free": "Gather", "axes": "Constant"}
    with open_ort_cpu(model.SerializeToString()) as engine:
        got = engine.run({"x": np.zeros((5, 8), np.float32)})
    assert {name: int(value) for name, value in got.items()} == {"known": 8, "free": 5, "axes": 2}
