"""A CUDA error under Moonshine loses no utterance.

    COSYD_MODELS_DIR=… PYTHONPATH=. python3 -m pytest -s tests/gpu/test_moonshine_fault_gpu.py

needs a GPU, cuda-bindings, onnxruntime-gpu, the models moonshine-tiny-en and demo-speech. This process itself
keeps off the GPU: an error in one process may leave the sessions of others unusable.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cosyd.engine.cuda import DRIVER
from cosyd.engine.ort_cuda import missing_provider

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_cuda_error_loses_no_utterance(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    try:
        ctypes.CDLL(DRIVER)
    except OSError as error:
        pytest.skip(f"no GPU: {error}")
    if (why := missing_provider()) is not None:
        pytest.skip(why)
    named = os.environ.get("COSYD_MODELS_DIR")
    root = Path(named) if named else request.getfixturevalue("models_dir")
    script = REPOSITORY / "tests" / "gpu" / "dead_moonshine.py"
    done = subprocess.run(
        [sys.executable, str(script), str(root / "moonshine-tiny-en"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{os.environ.get('PYTHONPATH', '')}"},
        check=False,
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stderr[-3_000:]
