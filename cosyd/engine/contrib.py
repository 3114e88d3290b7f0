"""ONNX Runtime's own operators (domain com.microsoft) written out in standard ONNX.

Files that went through ONNX Runtime's optimiser hold fused and dynamically quantised operators, which only
it knows. Fused ones are taken apart again. Of the quantised ones the weights are dequantised, exactly;
activations, which were rounded to 8 bits at run time, stay as they are, so results differ from the file's by
that rounding and are nearer to the network that was quantised.

Semantics: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from cosyd.engine.graphs import Weights, drop_unused
from cosyd.engine.quantised import dequantised
from cosyd.errors import ModelDamaged

Array = NDArray[Any]

DOMAINS = ("com.microsoft", "com.microsoft.nchwc")


def replace_contrib(model: ModelProto, weights: Weights) -> None:
    """In place. Raises ModelDamaged for operators that have no rule here."""
    _Writer(model.graph, weights).rewrite()
    kept = [opset for opset in model.opset_import if opset.domain not in DOMAINS]
    standard = [helper.make_opsetid(opset.domain, opset.version) for opset in kept]
    del model.opset_import[:]
    model.opset_import.extend(standard)


class _Writer:
    """Goes through a graph once, in order; each operator adds what stands for it."""

    def __init__(self, graph: GraphProto, weights: Weights) -> None:
        self._graph = graph
        self._weights = weights
        self._constants: dict[str, Array] = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self._quantised: dict[str, str] = {}  # output of DynamicQuantizeLinear -> what it rounded
        self._out: list[NodeProto] = []
        self._added: dict[str, Array] = {}
        self._rules: Mapping[str, Callable[[NodeProto], None]] = {
            "DynamicQuantizeLinear": self._note,
            "MatMulIntegerToFloat": self._matmul_integer,
            "DynamicQuantizeMatMul": self._matmul_dynamic,
            "FusedMatMul": self._matmul_fused,
            "FusedConv": self._conv,
            "Gelu": self._gelu,
            "QuickGelu": self._quick_gelu,
            "SkipLayerNormalization": self._skip_norm,
            "DequantizeLinear": self._dequantise,
        }

    def rewrite(self) -> None:
        for node in self._graph.node:
            rule = self._rules.get(node.op_type)
            standard = node.domain in ("", "ai.onnx")
            if rule is not None and (
                not standard or node.op_type in ("DynamicQuantizeLinear", "DequantizeLinear")
            ):
                rule(node)
            elif standard:
                self._out.append(node)
            else:
                raise ModelDamaged(
                    f"operator {node.domain}.{node.op_type} has no standard form known to cosyd"
                )
        nodes = [NodeProto.FromString(node.SerializeToString()) for node in self._out]
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        self._graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in self._added.items())
        drop_unused(self._graph)

    # --- helpers ---------------------------------------------------------------------------------------

    def _node(self, operation: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self._out.append(helper.make_node(operation, list(inputs), [output], **attributes))
        return output

    def _constant(self, name: str, value: Array) -> str:
        self._added[name] = value
        return name

    def _weight(self, quantised: str, scale: str, zero: str) -> str:
        """The dequantised constant; one for all its users."""
        name = f"{quantised}/real"
        if self._weights.get(name) is None:
            q, s = self._constant_of(quantised), self._constant_of(scale)
            z = self._constant_of(zero) if zero else np.zeros((), q.dtype)
            self._weights.add(self._graph, name, dequantised(q, s, z))
        return name

    def _is_constant(self, name: str) -> bool:
        return name in self._constants or self._weights.get(name) is not None

    def _constant_of(self, name: str) -> Array:
        value = self._constants.get(name, self._weights.get(name))
        if value is None:
            raise ModelDamaged(
                f"{name} is no constant: a quantised product of two activations is not known here"
            )
        return value

    def _product(self, node: NodeProto, x: str, weight: str, bias: str) -> None:
        output = node.output[0]
        if not bias:
            self._node("MatMul", [x, weight], output)
            return
        self._node("Add", [self._node("MatMul", [x, weight], f"{output}/product"), bias], output)

    # --- rules -----------------------------------------------------------------------------------------

    def _note(self, node: NodeProto) -> None:
        self._quantised[node.output[0]] = node.input[0]
        self._out.append(node)  # dropped at the end unless something still needs it

    def _matmul_integer(self, node: NodeProto) -> None:
        """A, B, scale of A, scale of B, zero point of A, zero point of B, bias."""
        a, b, _, scale, _, zero, bias = _padded(node.input, 7)
        if a not in self._quantised:
            raise ModelDamaged(f"{node.name or node.output[0]}: its input was not quantised in the graph")
        self._product(node, self._quantised[a], self._weight(b, scale, zero), bias)

    def _matmul_dynamic(self, node: NodeProto) -> None:
        """A, B, scale of B, zero point of B, bias."""
        a, b, scale, zero, bias = _padded(node.input, 5)
        self._product(node, a, self._weight(b, scale, zero), bias)

    def _matmul_fused(self, node: NodeProto) -> None:
        """alpha times A B, the last two axes of either perhaps transposed."""
        given = _attributes(node)
        if given.get("transBatchA") or given.get("transBatchB"):
            raise ModelDamaged(f"{node.name}: FusedMatMul with transposed batches is not known to cosyd")
        factors = [
            self._transposed(name, node.output[0]) if given.get(flag) else name
            for name, flag in zip(node.input, ("transA", "transB"), strict=True)
        ]
        output = node.output[0]
        alpha = self._constant(f"{output}/alpha", np.array(given.get("alpha", 1.0), np.float32))
        self._node("Mul", [self._node("MatMul", factors, f"{output}/product"), alpha], output)

    def _transposed(self, name: str, output: str) -> str:
        """The last two axes change places. Attention's tensors have four axes."""
        return self._node("Transpose", [name], f"{output}/{name}/transposed", perm=[0, 1, 3, 2])

    def _conv(self, node: NodeProto) -> None:
        given = _attributes(node)
        activation = given.pop("activation", b"").decode()
        if given.pop("activation_params", None) or len(node.input) > 3:
            raise ModelDamaged(f"{node.name}: FusedConv with parameters or a sum is not known to cosyd")
        output = node.output[0]
        plain = self._node("Conv", node.input, f"{output}/linear" if activation else output, **given)
        if activation:
            self._node(activation, [plain], output)

    def _gelu(self, node: NodeProto) -> None:
        """x / 2 (1 + erf(x / sqrt 2))."""
        x, output = node.input[0], node.output[0]
        root = self._constant(f"{output}/root", np.array(math.sqrt(0.5), np.float32))
        one = self._constant(f"{output}/one", np.array(1, np.float32))
        half = self._constant(f"{output}/half", np.array(0.5, np.float32))
        error = self._node("Erf", [self._node("Mul", [x, root], f"{output}/scaled")], f"{output}/erf")
        gate = self._node("Add", [error, one], f"{output}/gate")
        self._node("Mul", [self._node("Mul", [x, gate], f"{output}/gated"), half], output)

    def _quick_gelu(self, node: NodeProto) -> None:
        """x sigmoid(alpha x)."""
        x, output = node.input[0], node.output[0]
        alpha = self._constant(f"{output}/alpha", np.array(_attributes(node).get("alpha", 1.702), np.float32))
        gate = self._node("Sigmoid", [self._node("Mul", [x, alpha], f"{output}/scaled")], f"{output}/gate")
        self._node("Mul", [x, gate], output)

    def _skip_norm(self, node: NodeProto) -> None:
        """LayerNormalization of input + skip (+ bias); the sum is its fourth output where asked for."""
        x, skip, gamma, beta, bias = _padded(node.input, 5)
        outputs = _padded(node.output, 4)
        total = self._node("Add", [x, skip], f"{outputs[0]}/sum" if bias or not outputs[3] else outputs[3])
        if bias:
            total = self._node("Add", [total, bias], outputs[3] or f"{outputs[0]}/biased")
        epsilon = _attributes(node).get("epsilon", 1e-12)
        inputs = [total, gamma, *([beta] if beta else [])]
        self._node("LayerNormalization", inputs, outputs[0], axis=-1, epsilon=epsilon)

    def _dequantise(self, node: NodeProto) -> None:
        """Of rows gathered from a quantised table: the table is dequantised instead."""
        source = node.input[0]
        gather = next((n for n in self._out if source in n.output and n.op_type == "Gather"), None)
        per_tensor = self._is_constant(node.input[1]) and self._constant_of(node.input[1]).size == 1
        if gather is None or not self._is_constant(gather.input[0]) or not per_tensor:
            self._out.append(node)
            return
        table = self._weight(gather.input[0], node.input[1], node.input[2] if len(node.input) > 2 else "")
        self._node("Gather", [table, gather.input[1]], node.output[0], **_attributes(gather))


def _padded(names: Sequence[str], count: int) -> list[str]:
    """With "" for those that are left out at the end."""
    return [*list(names), *[""] * (count - len(names))]


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
