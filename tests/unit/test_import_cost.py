"""Importing costs nothing: no audio, network or inference library until a command needs it."""

from __future__ import annotations

import json
import subprocess
import sys

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
    "tensorrt_rtx_bindings",
    "ctranslate2",
    "onnx",
}
MODULES = (
    "cosyd.client",
    "cosyd.capture",
    "cosyd.frontend.factory",
    "cosyd.asr.recognizers",
    "cosyd.engine.choose",
    "cosyd.engine.moonshine_files",
    "cosyd.models.onnx",
    "cosyd.models.pull",
    "cosyd.runtime.offline",
    "cosyd.app",
    "cosyd.cli.listen",
    "cosyd.cli.transcribe",
    "cosyd.cli.doctor.audio",
)


def loaded_by(*statements: str) -> list[set[str]]:
    """Top-level modules that one fresh interpreter has after each of the statements."""
    program = f"""
import json, sys
for statement in {statements!r}:
    exec(statement)
    print(chr(10) + "LOADED " + json.dumps(sorted(m for m in sys.modules if "." not in m)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("LOADED ")]
    return [set(json.loads(line.removeprefix("LOADED "))) for line in lines]


def test_the_command_line_loads_nothing_heavy() -> None:
    after = loaded_by(
        "from cosyd.cli import main", "main(['version'])", "main(['--help'])", "main(['ctl', '--help'])"
    )
    assert [modules & HEAVY for modules in after] == [set()] * 4


def test_no_module_loads_audio_or_inference_libraries() -> None:
    after = loaded_by(*(f"import {module}" for module in MODULES))
    guilty = {module: sorted(found & LIBRARIES) for module, found in zip(MODULES, after, strict=True)}
    assert guilty == {module: [] for module in MODULES}


def test_a_subscriber_needs_neither_schema_nor_yaml() -> None:
    """A program that uses the results pays for messages and sockets alone."""
    (modules,) = loaded_by("import cosyd.client")
    assert modules & {"numpy", "yaml", "rich", "watchfiles"} == set()


def ours_after(module: str) -> list[str]:
    """cosyd's own modules that a fresh interpreter has after importing this one."""
    program = f"import {module}, sys; print(*(m for m in sys.modules if 'cosyd.' in m))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def test_a_recogniser_loads_neither_streaming_models_nor_gpu_nor_array_until_it_runs_them() -> None:
    idle = (
        "cosyd.asr.streaming.",
        "cosyd.asr.decoders.",
        "cosyd.gpu.driver",
        "cosyd.gpu.pipeline",
        "cosyd.array.path",
    )
    assert [name for name in ours_after("cosyd.runtime.assembly") if name.startswith(idle)] == []


def test_the_daemon_leaves_front_end_and_recogniser_to_its_worker() -> None:
    workers = (
        "cosyd.frontend.front_end",
        "cosyd.asr.recognition",
        "cosyd.gpu",
        "cosyd.array",
        "cosyd.engine",
    )
    assert [name for name in ours_after("cosyd.app") if name.startswith(workers)] == []
