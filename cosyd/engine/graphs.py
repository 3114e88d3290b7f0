"""Tools for ONNX graphs: what is not needed goes, weights step aside, known lengths become constants."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    helper,
    load_model_from_string,
    numpy_helper,
    shape_inference,
)

from cosyd.errors import ModelDamaged

Array = NDArray[Any]

LARGE = 256  # elements; shapes and indices have a few
_FREE = -1  # an axis whose length is not known


def parse(data: bytes, label: str) -> ModelProto:
    """An ONNX file. Raises ModelDamaged."""
    decode_error = importlib.import_module("google.protobuf.message").DecodeError
    try:
        return load_model_from_string(data)
    except decode_error as error:
        raise ModelDamaged(f"{label}: not an ONNX file; run: cosyd models verify") from error


class Weights:
    """Large constants, taken out of a graph, where inputs of the same names stand for them meanwhile."""

    def __init__(self) -> None:
        self._values: dict[str, Array] = {}

    @classmethod
    def of(cls, model: ModelProto) -> Weights:
        weights = cls()
        large = [t for t in model.graph.initializer if int(np.prod(t.dims, dtype=np.int64)) > LARGE]
        for tensor in large:
            weights.add(model.graph, tensor.name, numpy_helper.to_array(tensor))
        small = [_copy(t) for t in model.graph.initializer if t.name not in weights._values]
        del model.graph.initializer[:]
        model.graph.initializer.extend(small)
        return weights

    def add(self, graph: GraphProto, name: str, value: Array) -> None:
        self._values[name] = value
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        graph.input.append(helper.make_tensor_value_info(name, kind, list(value.shape)))

    def get(self, name: str) -> Array | None:
        return self._values.get(name)

    def put_back(self, model: ModelProto) -> None:
        """Those that are still read; nothing may stand for one any more."""
        graph = model.graph
        read = names_read(graph)
        inputs = [_copy(value) for value in graph.input if value.name not in self._values]
        del graph.input[:]
        graph.input.extend(inputs)
        used = {name: value for name, value in self._values.items() if name in read}
        graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in used.items())


def graphs_of(graph: GraphProto) -> list[GraphProto]:
    """The graph and all inside it."""
    inner = [a.g for node in graph.node for a in node.attribute if a.type == AttributeProto.GRAPH]
    return [graph, *(below for each in inner for below in graphs_of(each))]


def names_read(graph: GraphProto) -> set[str]:
    """All that the graph and those inside it read or give."""
    names: set[str] = set()
    for each in graphs_of(graph):
        names.update(output.name for output in each.output)
        names.update(name for node in each.node for name in node.input)
    return names


def drop_unused(graph: GraphProto) -> None:
    """Nodes and constants on which no output depends."""
    needed = {output.name for output in graph.output}
    live = []
    for node in reversed(graph.node):
        if needed.isdisjoint(node.output):
            continue
        live.append(_copy(node))
        needed.update(node.input)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                needed |= names_read(attribute.g)
    constants = [_copy(tensor) for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(reversed(live))
    graph.initializer.extend(constants)


def fold_shapes(model: ModelProto) -> int:
    """Put constants where lengths are computed that are known; how many there were."""
    inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {
        value.name: [_length(dim) for dim in value.type.tensor_type.shape.dim]
        for value in (*inferred.value_info, *inferred.input, *inferred.output)
        if value.type.tensor_type.HasField("shape")
    }
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    lengths: dict[str, Array] = {}
    folded = 0
    for node in model.graph.node:
        known = _known(node, shapes, lengths, constants)
        if known is None:
            continue
        lengths[node.output[0]] = known
        if node.op_type != "Shape" and _FREE not in known:
            value = numpy_helper.from_array(known)
            node.CopyFrom(helper.make_node("Constant", [], list(node.output), value=value))
            folded += 1
    return folded


def _known(
    node: NodeProto,
    shapes: Mapping[str, list[int]],
    lengths: Mapping[str, Array],
    constants: Mapping[str, Array],
) -> Array | None:
    """What the node computes of a shape, where an axis may be _FREE: Shape itself, Size of one, Gather from
    one. Also the indices of a constant's non-zero elements, which ONNX Runtime does not fold."""
    if node.op_type == "Shape" and not any(attribute.i for attribute in node.attribute):  # start, end
        shape = shapes.get(node.input[0])
        return None if shape is None else np.array(shape, np.int64)
    if node.op_type == "NonZero" and node.input[0] in constants:
        return np.stack(np.nonzero(constants[node.input[0]])).astype(np.int64)
    source = lengths.get(node.input[0]) if node.input else None
    if source is None or source.ndim != 1:
        return None
    if node.op_type == "Size":
        return np.array(source.size, np.int64)
    if node.op_type == "Gather" and node.input[1] in constants:
        return np.asarray(source[constants[node.input[1]]])
    return None


def _length(dim: Any) -> int:
    return int(dim.dim_value) if dim.HasField("dim_value") else _FREE


def _copy(message: Any) -> Any:
    """Messages of a list go with it when it is emptied."""
    return type(message).FromString(message.SerializeToString())
