"""The networks as ONNX Runtime runs them for comparison, on the CPU: names and shapes fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosyd.bench.gpu_ort import PROVIDERS, OrtNetworks


@pytest.mark.parametrize("batch", [1, 3])
def test_the_networks_run_bound(models_dir: Path, batch: int) -> None:
    networks = OrtNetworks(models_dir, batch, "cpu")
    for _ in range(2):
        networks.denoise()
        networks.speech()
    shapes = [value.shape() for value in networks._refine[1].get_outputs()]
    assert shapes[0] == [1, batch, 512] and set(map(tuple, shapes[1:])) == {(1, batch, 128)}
    assert networks._vad[1].get_outputs()[0].shape() == [batch, 1]


def test_a_missing_provider_is_said(models_dir: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    if PROVIDERS["cuda"] in ort.get_available_providers():
        pytest.skip("there is one")
    with pytest.raises(ImportError, match="no CUDAExecutionProvider"):
        OrtNetworks(models_dir, 1)
