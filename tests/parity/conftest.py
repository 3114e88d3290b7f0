"""What the parity tests share: a GPU, the networks, and a way to run streams through the pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosyd.errors import GpuError
from cosyd.gpu.driver import Gpu
from cosyd.gpu.weights import DtlnWeights, VadWeights, read_dtln, read_vad


@pytest.fixture(scope="session")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpu]:
    """The first GPU; skips when there is none."""
    cache = os.environ.get("COSYD_KERNEL_CACHE")
    opened = Gpu(Path(cache) if cache else tmp_path_factory.mktemp("kernels"))
    try:
        opened.__enter__()
    except GpuError as error:
        pytest.skip(f"no GPU to test on: {error}")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def network_files(request: pytest.FixtureRequest) -> dict[str, Path]:
    """The ONNX files, from COSYD_MODELS_DIR alone where that is set (the GPU machine may lack the rest)."""
    named = os.environ.get("COSYD_MODELS_DIR")
    root = Path(named) if named else request.getfixturevalue("models_dir")
    return {
        "dtln_1": root / "dtln" / "model_1.onnx",
        "dtln_2": root / "dtln" / "model_2.onnx",
        "vad": root / "silero-vad-6" / "silero_vad_16k_op15.onnx",
    }


@pytest.fixture(scope="session")
def dtln_weights(network_files: dict[str, Path]) -> DtlnWeights:
    return read_dtln(network_files["dtln_1"], network_files["dtln_2"])


@pytest.fixture(scope="session")
def vad_weights(network_files: dict[str, Path]) -> VadWeights:
    return read_vad(network_files["vad"])
