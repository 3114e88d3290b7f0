"""Layers out of a published network with 8-bit weights whose activations are rounded as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, numpy_helper

from cosyd.engine.graphs import graphs_of, parse
from cosyd.engine.writer import GraphWriter
from cosyd.errors import ModelDamaged, ModelMissing
from cosyd.models.onnx import plain_onnx

Array = NDArray[Any]

DYNAMIC = "com.microsoft.DynamicQuantizeMatMul"
# Where these operators keep weight, scale and zero point, and the bias if there is one.
_PLACES = {"DynamicQuantizeMatMul": (1, 2, 3, 4), "MatMulIntegerToFloat": (1, 3, 5, 7)}


def dequantised(values: Array, scale: Array, zero: Array) -> Array:
    """float32: (values - zero) * scale; ``scale`` and ``zero`` of each column or of all."""
    return np.asarray((values.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale)


@dataclass(frozen=True)
class Linear:
    """``weight`` uint8 [in, out]; ``scale`` and ``zero`` of each column or of all; ``bias`` [out] or None."""

    weight: Array
    scale: Array
    zero: Array
    bias: Array | None = None

    def write(self, graph: GraphWriter, source: str, output: str | None = None) -> str:
        """``source`` [..., in] -> [..., out]; it is rounded to 8 bits over all of its elements at once."""
        constants = [graph.constant(value) for value in (self.weight, self.scale, self.zero)]
        if self.bias is not None:
            constants.append(graph.constant(self.bias))
        return graph.add(DYNAMIC, source, *constants, output=output)


def beside(layers: Sequence[Linear]) -> Linear:
    """Layers without bias that read the same, as one: equal results, as each column keeps its own scale."""
    return Linear(
        np.concatenate([layer.weight for layer in layers], axis=1),
        np.concatenate([np.broadcast_to(layer.scale, layer.weight.shape[1]) for layer in layers]),
        np.concatenate([np.broadcast_to(layer.zero, layer.weight.shape[1]) for layer in layers]),
    )


class Published:
    """A network's file, also in ONNX Runtime's own format; nodes are found by the names of their outputs."""

    def __init__(self, path: Path, name: str) -> None:
        """Raises ModelMissing, ModelDamaged."""
        if not path.is_file():
            raise ModelMissing(f"{path}: not there; run: cosyd models pull")
        self._name = name
        model = parse(plain_onnx(path, optimise=False, name=name), name)
        self._nodes: dict[str, NodeProto] = {}
        self._constants: dict[str, Array] = {}
        for graph in graphs_of(model.graph):
            # Branches of a merged decoder use the same names for the same things.
            self._nodes |= {output: node for node in graph.node for output in node.output}
            self._constants |= {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}

    def constant(self, name: str) -> Array:
        if name not in self._constants:
            raise ModelDamaged(f"{self._name}: no weights {name!r}; run: cosyd models verify")
        return self._constants[name]

    def weight(self, output: str, index: int = 1) -> Array:
        """Input ``index`` of the node that makes ``output``."""
        return self.constant(self._node(output).input[index])

    def linear(self, output: str) -> Linear:
        node = self._node(output)
        if node.op_type not in _PLACES:
            raise ModelDamaged(f"{self._name}: {output!r} is made by {node.op_type}, not by an 8-bit layer")
        inputs = [*node.input, *[""] * 8]
        weight, scale, zero, bias = (inputs[place] for place in _PLACES[node.op_type])
        values = [self.constant(each) for each in (weight, scale, zero)]
        return Linear(values[0], values[1], values[2], self.constant(bias) if bias else None)

    def _node(self, output: str) -> NodeProto:
        if output not in self._nodes:
            raise ModelDamaged(f"{self._name}: nothing makes {output!r}; run: cosyd models verify")
        return self._nodes[output]
