"""Importing costs nothing: no audio, network or inference library until a command needs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "onnxruntime", "sounddevice", "_sounddevice", "soundfile", "pyaudio", "zmq", "numpy", "scipy", "rich",
    "pydantic", "yaml", "watchfiles", "msgspec", "prometheus_client", "systemd", "pycuda", "tensorrt",
}  # fmt: skip
LIBRARIES = {
    "onnxruntime",
    "sounddevice",
    "_sounddevice",
    "soundfile",
    "pyaudio",
    "systemd",
    "pycuda",
    "tensorrt",
}


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after the statement."""
    program = (
        f"{statement}\nimport json, sys\nprint(json.dumps(sorted(m for m in sys.modules if '.' not in m)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_command_line_loads_nothing_heavy() -> None:
    assert loaded_by("import cosyd.cli") & HEAVY == set()


def test_version_and_help_load_nothing_heavy() -> None:
    assert loaded_by("from cosyd.cli import main; main(['version'])") & HEAVY == set()
    assert loaded_by("from cosyd.cli import main; main(['ctl', '--help'])") & HEAVY == set()


@pytest.mark.parametrize(
    "module",
    [
        "cosyd.app", "cosyd.client", "cosyd.capture", "cosyd.frontend.factory", "cosyd.asr.recognizers",
        "cosyd.models.onnx", "cosyd.models.pull", "cosyd.runtime.assembly", "cosyd.runtime.offline",
        "cosyd.cli.listen", "cosyd.cli.doctor.audio", "cosyd.cli.transcribe",
    ],
)  # fmt: skip
def test_no_module_loads_audio_or_inference_libraries(module: str) -> None:
    assert loaded_by(f"import {module}") & LIBRARIES == set()


def test_a_subscriber_needs_neither_schema_nor_yaml() -> None:
    """A program that uses the results pays for messages and sockets alone."""
    assert loaded_by("import cosyd.client") & {"numpy", "yaml", "rich", "watchfiles"} == set()
