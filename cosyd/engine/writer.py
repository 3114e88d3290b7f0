"""Write an ONNX graph node by node: every operator gives back the names of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

CONTRIB = "com.microsoft"  # ONNX Runtime's own operators
OPSET, IR_VERSION = 17, 8
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

Shape = Sequence[int | str]


class GraphWriter:
    """Inputs and outputs are float32 unless told otherwise; axes that are free have names."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []

    def input(self, name: str, shape: Shape, kind: int = FLOAT) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, name: str, shape: Shape) -> str:
        """The name is for the ``outputs`` of the operator that makes it."""
        self._outputs.append(helper.make_tensor_value_info(name, FLOAT, list(shape)))
        return name

    def constant(self, value: ArrayLike, dtype: type | None = None) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants[name] = np.ascontiguousarray(np.asarray(value, dtype)).reshape(np.shape(value))
        return name

    def ints(self, *values: int) -> str:
        """A constant list of whole numbers."""
        return self.constant(values, np.int64)

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """An operator with one output."""
        return self.add_many(operator, inputs, [output or ""], **attributes)[0]

    def add_many(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> list[str]:
        """``outputs``: names, or empty where any will do. ``com.microsoft.Name``: ONNX Runtime's own."""
        domain, _, kind = operator.rpartition(".")
        number = len(self._nodes)
        names = [name or f"{kind}_{number}_{index}" for index, name in enumerate(outputs)]
        node = helper.make_node(kind, list(inputs), names, f"{kind}_{number}", domain=domain, **attributes)
        self._nodes.append(node)
        return names

    def file(self, name: str) -> bytes:
        """The whole as an ONNX file."""
        weights = [numpy_helper.from_array(value, key) for key, value in self._constants.items()]
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="cosyd")
        return bytes(model.SerializeToString())
