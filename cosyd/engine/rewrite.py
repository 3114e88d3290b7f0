"""Make an ONNX file into one that TensorRT's parser and compiler take, with equal outputs.

What stands in their way in the networks that we have met: inputs that choose a branch (Silero's ``sr``, a
merged decoder's ``use_cache_branch``), branches on shapes that are known beforehand, ONNX Runtime's own
operators and file format. Fixing those inputs and axes and folding what follows from them leaves a plain
graph. Folding itself is ONNX Runtime's; only shapes of which some axes are free, which it leaves alone, are
folded here.

Weights are kept beside the graph meanwhile (``Weights``), so that each round handles kilobytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from cosyd.engine.contrib import replace_contrib
from cosyd.engine.graphs import Weights, drop_unused, fold_shapes, graphs_of, parse
from cosyd.errors import ModelDamaged, ModelMissing
from cosyd.models.onnx import plain_onnx

Array = NDArray[Any]

ROUNDS = 16  # a branch inside a branch takes a round each; Silero's takes three


def plain_network(
    model: Path | bytes,
    *,
    inputs: Mapping[str, Array] | None = None,
    axes: Mapping[str, int] | None = None,
    outputs: Sequence[str] | None = None,
    name: str | None = None,
) -> bytes:
    """The network in standard ONNX, with these inputs made constants, these free axes given lengths, these
    outputs alone, and no branch that is decided by that. Raises ModelMissing, ModelDamaged.
    """
    label = name or (model.name if isinstance(model, Path) else "network")
    if isinstance(model, Path) and not model.is_file():
        raise ModelMissing(f"{model}: not there; run: cosyd models pull")
    graph = _parse(plain_onnx(model, optimise=False, name=label), label)
    for wanted, value in (inputs or {}).items():
        fix_input(graph, wanted, value, label)
    fix_axes(graph, axes or {})
    graph = _simplify(graph, label)
    if outputs is not None:
        keep_outputs(graph, outputs, label)
    weights = Weights.of(graph)
    replace_contrib(graph, weights)
    for _ in range(ROUNDS):
        graph = _simplify(graph, label)
        if not (_is_undecided(graph) and fold_shapes(graph)):
            break
    weights.put_back(graph)
    return bytes(graph.SerializeToString())


def fix_input(model: ModelProto, name: str, value: Array, label: str = "network") -> None:
    """The input becomes a constant. Raises ModelDamaged when there is none of that name."""
    found = [value_info for value_info in model.graph.input if value_info.name == name]
    if not found:
        there = ", ".join(value_info.name for value_info in model.graph.input)
        raise ModelDamaged(f"{label}: no input {name!r}; there are {there}")
    model.graph.input.remove(found[0])
    model.graph.initializer.append(numpy_helper.from_array(value, name))


def fix_axes(model: ModelProto, axes: Mapping[str, int]) -> None:
    """Free axes of these names get these lengths, wherever they occur."""
    graph = model.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in axes:
                dim.dim_value = axes[dim.dim_param]


def keep_outputs(model: ModelProto, names: Sequence[str], label: str = "network") -> None:
    """Only these outputs, in this order, and what they need. Raises ModelDamaged for one that is missing."""
    graph = model.graph
    there = {output.name: output for output in graph.output}
    missing = [name for name in names if name not in there]
    if missing:
        raise ModelDamaged(f"{label}: no output {', '.join(missing)}; there are {', '.join(there)}")
    kept = [ValueInfoProto.FromString(there[name].SerializeToString()) for name in names]
    del graph.output[:]
    graph.output.extend(kept)
    drop_unused(graph)
    read = {name for node in graph.node for name in node.input}
    unread = [value for value in graph.input if value.name not in read]
    for value in unread:
        graph.input.remove(value)


def _is_undecided(model: ModelProto) -> bool:
    """Branches, and lists whose length depends on values (what repeat_interleave is exported as)."""
    return any(node.op_type in ("If", "NonZero") for node in model.graph.node)


def _simplify(model: ModelProto, label: str) -> ModelProto:
    return _parse(plain_onnx(model.SerializeToString(), optimise=True, name=label), label)


def _parse(data: bytes, label: str) -> ModelProto:
    """A file of ONNX Runtime's format has lost the names of its graphs, which a checker asks for."""
    model = parse(data, label)
    for index, graph in enumerate(graphs_of(model.graph)):
        graph.name = graph.name or f"graph{index}"
    kept = [opset for opset in model.opset_import if opset.domain in ("", "ai.onnx", "com.microsoft")]
    known = [helper.make_opsetid(opset.domain, opset.version) for opset in kept]
    del model.opset_import[:]
    model.opset_import.extend(known)
    return model
