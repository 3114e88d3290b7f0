"""One network compiled by TensorRT, in the process that calls: meant to be a child (see ``builder``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cosyd.engine.golden import Golden
from cosyd.engine.library import NAMES, Capability, Library, load_library
from cosyd.engine.logger import make_logger
from cosyd.engine.memory import HostMemory, Memory
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.plan import Plan, Precision
from cosyd.engine.profiles import Profile
from cosyd.engine.recipe import calibration_feeds, read_wavs
from cosyd.engine.tensors import TensorSpec
from cosyd.engine.trt import TrtEngine
from cosyd.errors import InferenceError, ModelError

MIB = 1 << 20


class BuildFailed(ModelError):
    """A network could not be compiled; the message says what the compiler said."""


@dataclass(frozen=True)
class BuildRequest:
    """What to compile and how.

    ``onnx``: the network in standard ONNX and float32. ``calibration``: folder of WAV files, for int8.
    ``golden``: how to check another precision; ``memory``: where the check may run the plan. ``target``:
    compute capability to compile for, where the library needs no GPU; None is that of the GPU that is there.
    ``optimisation``: 0 (quick to build) to 5; None is the library's choice.
    """

    name: str
    onnx: bytes = field(repr=False)
    profiles: tuple[Profile, ...] = ()
    precision: Precision = "fp32"
    calibration: str | None = None
    golden: Golden | None = field(default=None, repr=False)
    memory: Literal["cpu", "cuda"] = "cuda"
    workspace_mb: int = 1_024
    sparse: bool = False
    target: Capability | None = None
    optimisation: int | None = None
    libraries: tuple[str, ...] = NAMES


def compile_plan(request: BuildRequest) -> Plan:
    """Raises BuildFailed with what the parser or the compiler said, TensorRtMissing, ModelDamaged."""
    library = load_library(request.libraries)
    inputs, outputs, metadata = describe(request.onnx)
    typed = _in_precision(request)
    logger = make_logger(library.module)
    builder = library.module.Builder(logger)
    network = builder.create_network(library.network_flags())
    parser = library.module.OnnxParser(network, logger)
    if not parser.parse(typed):
        faults = [_first_line(parser.get_error(index)) for index in range(parser.num_errors)]
        raise BuildFailed(f"{request.name}: {library.title} cannot parse it: {'; '.join(faults[:3])}")
    config = _configure(library, builder, request, inputs)
    code = builder.build_serialized_network(network, config)
    if code is None:
        raise BuildFailed(f"{request.name}: {library.title} cannot compile it: {logger.last_error}")
    return Plan(inputs, outputs, request.profiles, bytes(code), metadata)


def _in_precision(request: BuildRequest) -> bytes:
    """The network with the types that it shall be computed in."""
    from cosyd.engine.precision import to_half, to_int8

    if request.precision == "fp32":
        return request.onnx
    if request.precision == "fp16":
        return to_half(request.onnx)
    if request.golden is None or request.calibration is None:
        raise BuildFailed(f"{request.name}: int8 needs gpu.calibration, a folder of WAV files")
    recordings = read_wavs(Path(request.calibration))
    with open_ort_cpu(request.onnx, name=request.name) as engine:
        return to_int8(request.onnx, calibration_feeds(request.golden.recipe, engine, recordings))


def check_plan(request: BuildRequest, plan: Plan) -> str | None:
    """Why this precision must not be used; None if it may. Runs the plan where it will run."""
    if request.golden is None:
        return None
    library = load_library(request.libraries)
    reference = open_ort_cpu(request.onnx, name=request.name)
    with reference, TrtEngine(library, plan, _memory(request.memory), name=request.name, reason="") as engine:
        try:
            return request.golden.fault(engine, reference)
        except InferenceError as error:
            return str(error)


def _memory(kind: str) -> Memory:
    if kind == "cpu":
        return HostMemory()
    from cosyd.engine.cuda import CudaMemory

    return CudaMemory()


def describe(onnx_file: bytes) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...], dict[str, str]]:
    """Inputs, outputs and metadata of an ONNX file, axes named as in it. Raises ModelDamaged."""
    from cosyd.engine.graphs import parse

    model = parse(onnx_file, "network")
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_spec(value) for value in model.graph.input if value.name not in constants)
    return inputs, tuple(map(_spec, model.graph.output)), {p.key: p.value for p in model.metadata_props}


def _spec(value: Any) -> TensorSpec:
    from onnx import helper

    tensor = value.type.tensor_type
    axes = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim]
    return TensorSpec.of(value.name, np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)), axes)


def _configure(library: Library, builder: Any, request: BuildRequest, inputs: tuple[TensorSpec, ...]) -> Any:
    module = library.module
    config = builder.create_builder_config()
    config.set_memory_pool_limit(module.MemoryPoolType.WORKSPACE, request.workspace_mb * MIB)
    library.set_target(config, request.target)
    if request.precision == "fp32":
        config.clear_flag(module.BuilderFlag.TF32)  # float32 is what stays when the others are refused: exact
    if request.sparse:
        config.set_flag(module.BuilderFlag.SPARSE_WEIGHTS)
    if request.optimisation is not None:
        config.builder_optimization_level = request.optimisation
    free = [spec for spec in inputs if spec.symbols]
    if free and not request.profiles:
        raise BuildFailed(f"{request.name}: {free[0].name} {free[0]} has free axes and no profile is given")
    for profile in request.profiles if free else ():
        ranges = builder.create_optimization_profile()
        for spec in free:
            ranges.set_shape(spec.name, *profile.shapes(spec))
        if config.add_optimization_profile(ranges) < 0:
            raise BuildFailed(f"{request.name}: {library.title} refuses the profile {profile}")
    return config


def _first_line(error: Any) -> str:
    return str(error).strip().splitlines()[0]
