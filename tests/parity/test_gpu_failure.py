"""A real CUDA error: streams go on on the CPU. The script says what it found; here it must succeed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pydantic", reason="the configuration needs pydantic")
pytest.importorskip("onnxruntime", reason="the CPU front end needs ONNX Runtime")

from cosyd.gpu.driver import Gpu
from cosyd.gpu.kernels import _with_nvrtc, has_nvrtc

ROOT = Path(__file__).parents[2]


def test_an_illegal_address_moves_the_streams_and_loses_nothing(
    gpu: Gpu, network_files: dict[str, Path]
) -> None:
    models = network_files["vad"].parents[1]
    script = ROOT / "tests" / "gpu" / "dead_gpu.py"
    done = subprocess.run(
        [sys.executable, str(script), str(models), str(gpu._cache)],
        capture_output=True, text=True, timeout=110, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "0 VAD decisions changed" in done.stdout


def test_what_nvrtc_compiles_loads(gpu: Gpu) -> None:
    if not has_nvrtc():
        pytest.skip("NVRTC's bindings are not installed")
    module = gpu.cuda.module_from_buffer(_with_nvrtc("slots", gpu.arch))
    array = gpu.array((4, 64))
    array.set(array.get() + 1)
    import numpy as np

    which = gpu.upload(np.array([2], np.int32))
    arguments = (np.uintp(which.address), np.int32(4), np.int32(64), np.uintp(array.address))
    module.get_function("clear_slots")(*arguments, grid=(1, 1, 1), block=(256, 1, 1))
    gpu.cuda.Context.synchronize()
    assert array.get().sum(axis=1).tolist() == [64, 64, 0, 64]
    which.free()
    array.free()
