"""Networks in half precision or with 8-bit products, as the ONNX file says it (strongly typed).

TensorRT-RTX and later TensorRT take types from the network alone, so precision is a change of the graph, the
same for all versions. Inputs, outputs and states stay float32.

* ``fp16``: everything but what overflows or cancels: norms, sums, powers, exponentials (in float16 a square
  is infinite from an amplitude of 256 on, and LayerNorm's variance is a sum of squares).
* ``int8``: products of constants with activations, quantised with Q/DQ pairs, symmetric, weights by channel;
  the scales of activations are the extremes seen over calibration data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cosyd.engine.graphs import parse
from cosyd.errors import ModelError

Array = NDArray[Any]

STAY_FLOAT = (
    "Erf",
    "Exp",
    "InstanceNormalization",
    "IsNaN",
    "LayerNormalization",
    "Log",
    "LogSoftmax",
    "Pow",
    "ReduceL2",
    "ReduceMean",
    "ReduceSum",
    "ReduceSumSquare",
    "Reciprocal",
    "Softmax",
    "Sqrt",
)
PRODUCTS = ("Conv", "Gemm", "MatMul")


def to_half(network: bytes) -> bytes:
    """float16 where it is safe, float32 inputs and outputs."""
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    model = convert_float_to_float16(
        parse(network, "network"),
        keep_io_types=True,
        op_block_list=[*DEFAULT_OP_BLOCK_LIST, *STAY_FLOAT],
    )
    OnnxModel(model).topological_sort()  # it puts its casts at the end
    return bytes(model.SerializeToString())


def to_int8(network: bytes, feeds: Iterable[Mapping[str, Array]]) -> bytes:
    """Q/DQ around products. ``feeds``: what the network hears while it works. Raises ModelError without."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        _feeds = iter(feeds)

        def get_next(self) -> dict[str, Array] | None:
            step = next(self._feeds, None)
            return None if step is None else dict(step)

    model = parse(network, "network")
    # What the quantiser would otherwise ask for in a warning: shapes known, constants folded.
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    with tempfile.TemporaryDirectory(prefix="cosyd-") as folder:
        target = Path(folder, "int8.onnx")
        try:
            quantize_static(
                model,
                target,
                Reader(),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(PRODUCTS),
                per_channel=True,
                activation_type=QuantType.QInt8,
                weight_type=QuantType.QInt8,
                extra_options={"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False},
            )
        except ValueError as error:  # it wants at least one step
            raise ModelError(f"int8: no calibration data: {error}") from error
        return target.read_bytes()
