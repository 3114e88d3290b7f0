"""Small ONNX networks for tests of engines, and runs of them in plain NumPy."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

FEATURES, UNITS = 6, 4
OPSET, IR = 17, 8


def model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Array]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "test", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in weights.items()]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    onnx.checker.check_model(made)
    return made


class Recurrent:
    """A network with two states whose batch axes differ, as a streaming encoder's do.

    h' = tanh(x W + h R) with h [N, UNITS]; k' = the last two h' (k [2, N, UNITS]: axis 1 is the batch);
    seen' = seen + 1 (int64 [N]); y [N, UNITS] = h' + sum over k'.
    """

    states: ClassVar = {"h": "h_out", "k": "k_out", "seen": "seen_out"}

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.w = rng.standard_normal((FEATURES, UNITS)).astype(np.float32)
        self.r = rng.standard_normal((UNITS, UNITS)).astype(np.float32)

    def build(self, **metadata: str) -> bytes:
        value = helper.make_tensor_value_info
        real, whole = TensorProto.FLOAT, TensorProto.INT64
        nodes = [
            helper.make_node("MatMul", ["x", "W"], ["xw"]),
            helper.make_node("MatMul", ["h", "R"], ["hr"]),
            helper.make_node("Add", ["xw", "hr"], ["sum"]),
            helper.make_node("Tanh", ["sum"], ["h_out"]),
            helper.make_node("Slice", ["k", "one", "two", "zero"], ["tail"]),
            helper.make_node("Unsqueeze", ["h_out", "zero"], ["head"]),
            helper.make_node("Concat", ["tail", "head"], ["k_out"], axis=0),
            helper.make_node("ReduceSum", ["k_out", "zero"], ["total"], keepdims=0),
            helper.make_node("Add", ["h_out", "total"], ["y"]),
            helper.make_node("Add", ["seen", "one"], ["seen_out"]),
        ]
        inputs = [
            value("x", real, ["N", FEATURES]),
            value("h", real, ["N", UNITS]),
            value("k", real, [2, "N", UNITS]),
            value("seen", whole, ["N"]),
        ]
        outputs = [
            value("y", real, ["N", UNITS]),
            value("h_out", real, ["N", UNITS]),
            value("k_out", real, [2, "N", UNITS]),
            value("seen_out", whole, ["N"]),
        ]
        numbers = {n: np.array([i], np.int64) for i, n in enumerate(("zero", "one", "two"))}
        made = model(nodes, inputs, outputs, {"W": self.w, "R": self.r, **numbers})
        helper.set_model_props(made, metadata)
        return made.SerializeToString()

    def step(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """The same in float64."""
        h = np.tanh(feeds["x"].astype(float) @ self.w + feeds["h"].astype(float) @ self.r)
        k = np.stack((feeds["k"][1].astype(float), h))
        return {"y": h + k.sum(0), "h_out": h, "k_out": k, "seen_out": feeds["seen"] + 1}

    def zeros(self, n: int) -> dict[str, Array]:
        return {
            "h": np.zeros((n, UNITS), np.float32),
            "k": np.zeros((2, n, UNITS), np.float32),
            "seen": np.zeros(n, np.int64),
        }
