"""The page of ``bench gpu``: comparisons that were measured, and those that were not, with the reason."""

from __future__ import annotations

from typing import Any

from cosyd.bench.gpu import _figures, _others
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
