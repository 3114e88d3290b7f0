"""Convolutions given a second axis: the same results, the same tensors, and only those that gain by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cosyd.engine.depthwise import rewrite, with_quick_convolutions
from cosyd.engine.ort import open_ort_cpu, open_streams_cpu
from cosyd.errors import ModelDamaged, ModelMissing

CHANNELS, FRAMES = 16, 20


def network(
    path: Path,
    *,
    group: int = CHANNELS,
    bias: bool = False,
    half: bool = False,
    opset: int = 13,
    **attributes: Any,
) -> Path:
    """One convolution with kernel 5 over [N, CHANNELS, FRAMES], and a Tanh that ONNX Runtime joins to it."""
    rng = np.random.default_rng(0)
    kind, dtype = (TensorProto.FLOAT16, np.float16) if half else (TensorProto.FLOAT, np.float32)
    weight = rng.standard_normal((CHANNELS, CHANNELS // group, 5)).astype(dtype)
    weights = [numpy_helper.from_array(weight, "w")]
    if bias:
        weights.append(numpy_helper.from_array(rng.standard_normal(CHANNELS).astype(dtype), "b"))
    inputs = ["x", *(tensor.name for tensor in weights)]
    nodes = [
        helper.make_node("Conv", inputs, ["c"], group=group, **attributes),
        helper.make_node("Tanh", ["c"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", kind, ["N", CHANNELS, FRAMES])
    y = helper.make_tensor_value_info("y", kind, ["N", CHANNELS, "T"])
    graph = helper.make_graph(nodes, "one", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    helper.set_model_props(model, {"model_type": "made up"})
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": True},
        {"kernel_shape": [5]},
        {"pads": [4, 0]},
        {"pads": [2, 2], "strides": [2]},
        {"dilations": [3]},
    ],
)
@pytest.mark.parametrize("streams", [1, 3])
def test_results_and_tensors_stay(tmp_path: Path, options: dict[str, Any], streams: int) -> None:
    file = network(tmp_path / "a.onnx", **options)
    assert isinstance(with_quick_convolutions(file), bytes)
    x = np.random.default_rng(1).standard_normal((streams, CHANNELS, FRAMES)).astype(np.float32)
    with open_ort_cpu(file) as plain, open_streams_cpu(file) as quick:
        assert (quick.inputs, quick.outputs, quick.metadata) == (plain.inputs, plain.outputs, plain.metadata)
        wanted = plain.run({"x": x})["y"]
        assert quick.run({"x": x})["y"].shape == wanted.shape
        np.testing.assert_allclose(quick.run({"x": x})["y"], wanted, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"group": 1}, {"group": 4}, {"half": True}, {"auto_pad": "SAME_UPPER"}, {"opset": 11}],
)
def test_what_gains_nothing_stays_as_it_is(tmp_path: Path, options: dict[str, Any]) -> None:
    file = network(tmp_path / "a.onnx", **options)
    assert with_quick_convolutions(file) is file


def test_weights_in_other_files_stay_there(tmp_path: Path) -> None:
    model = onnx.load(network(tmp_path / "a.onnx"))
    onnx.save(model, tmp_path / "b.onnx", save_as_external_data=True, size_threshold=0, location="b.data")
    assert with_quick_convolutions(tmp_path / "b.onnx") == tmp_path / "b.onnx"
    with open_streams_cpu(tmp_path / "b.onnx") as engine:
        assert engine.name == str(tmp_path / "b.onnx")


def test_a_weight_that_may_be_fed_stays_as_it_is(tmp_path: Path) -> None:
    model = onnx.load(network(tmp_path / "a.onnx"))
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [CHANNELS, 1, 5]))
    assert rewrite(model) == 0
    model = onnx.load(tmp_path / "a.onnx")
    model.ir_version = 3  # in which constants are inputs, too
    assert rewrite(model) == 0


def test_one_weight_of_two_convolutions(tmp_path: Path) -> None:
    model = onnx.load(network(tmp_path / "a.onnx", pads=[2, 2]))
    model.graph.node[1].CopyFrom(helper.make_node("Conv", ["c", "w"], ["y"], group=CHANNELS, pads=[2, 2]))
    wanted = model.SerializeToString()
    assert rewrite(model) == 2
    x = np.random.default_rng(1).standard_normal((2, CHANNELS, FRAMES)).astype(np.float32)
    with open_ort_cpu(wanted) as plain, open_ort_cpu(model.SerializeToString()) as quick:
        np.testing.assert_allclose(quick.run({"x": x})["y"], plain.run({"x": x})["y"], atol=1e-4)


def test_what_is_no_network_is_refused_as_ever(tmp_path: Path) -> None:
    file = tmp_path / "a.onnx"
    with pytest.raises(ModelMissing, match="not there"):
        open_streams_cpu(file)
    file.write_bytes(b"Conv is a word in this text")
    with pytest.raises(ModelDamaged, match=r"a\.onnx: cannot be loaded"):
        open_streams_cpu(file)
