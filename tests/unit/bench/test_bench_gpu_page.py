"""The page of ``bench gpu``: comparisons that were measured, and those that were not, with the reason."""

from __future__ import annotations

from typing import Any

from cosyd.bench.gpu import _figures, _kernels, _others
from cosyd.bench.gpu_costs import COSTS
from cosyd.bench.report import Report


def found(**others: Any) -> dict[str, Any]:
    return {"latency": [{"hops": 100, "us": {"p50": 50.0, "p99": 70.0}}], "streams": [], **others}


def figures(measured: dict[str, Any]) -> dict[str, float]:
    report = Report("gpu", "a GPU", "a method", quick=True)
    _figures(report, measured)
    return {figure.name: figure.value for figure in report.figures}


def test_onnx_runtime_on_cuda_is_beside_ours() -> None:
    measured = found(ort=[{"batch": 1, "onnxruntime": "1.31.1", "per_hop_us": 900.0}])
    assert figures(measured)["times as fast as ONNX Runtime's networks on CUDA, batch 1, FP32"] == 18
    assert _others(measured) == [("ONNX Runtime 1.31.1 on CUDA, FP32, networks alone", "1", "900")]


def test_what_was_not_measured_says_why() -> None:
    measured = found(ort=[{"reason": "this onnxruntime has no CUDAExecutionProvider"}])
    assert not [name for name in figures(measured) if "ONNX" in name]
    assert "no CUDAExecutionProvider" in _others(measured)[0][0]


CEILINGS = {"fp32_tflops": 50.0, "fp16_tflops": 500.0, "device_copy_tb_s": 4.0}


def kernels(**named: str) -> dict[str, Any]:
    """A step of 1,000 streams in which each launch took 10 µs."""
    names = [named.get(f"n{i}", f"{i:02d} kernel") for i in range(len(COSTS))]
    return {"streams": 1_000, "mode": "fp16", "us": dict.fromkeys(names, 10.0)}


def test_kernels_are_held_against_the_peak_of_their_precision() -> None:
    head, rows = _kernels(kernels(n4="04 dense_f16_large"), [CEILINGS])
    assert head[2:] == ("TFLOP/s", "share of peak, %", "TB/s", "share of copy, %")
    # The first LSTM: 2 * (257 + 128) * 512 operations and 4 * (257 + 5 * 128) bytes a stream.
    assert rows[4] == ("04 dense_f16_large", "10", "39.4", "7.88", "0.36", "8.97")
    assert rows[5][2:4] == ("26.2", "52.4")


def test_the_arithmetic_is_what_the_headers_count() -> None:
    products = sum(cost.flop for i, cost in enumerate(COSTS) if i in (4, 5, 6, 8, 10, 11, 12, 13))
    assert products == 2 * 983_680  # DTLN's weights without its biases


def test_without_measured_peaks_there_are_times_only() -> None:
    head, rows = _kernels(kernels(), None)
    assert head == ("kernel", "µs") and rows[0] == ("00 kernel", "10")
