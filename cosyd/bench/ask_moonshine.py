"""Moonshine's own library, for benchmarks that set it beside ours. It lives in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cosyd.bench.speech import Audio

MOONSHINE_ENV = "MOONSHINE_VOICE_PYTHON"  # an interpreter that has moonshine-voice


def ask_moonshine(script: str, arguments: Sequence[float], audio: Audio, timeout_s: float) -> Any:
    """Run a script in the interpreter that has Moonshine's own library, with the audio as float32 on stdin ->
    the JSON on its last line, or a str: why it was not run."""
    python = os.environ.get(MOONSHINE_ENV)
    if not python:
        return f"{MOONSHINE_ENV} names no interpreter that has it"
    if not Path(python).is_file():
        return f"{MOONSHINE_ENV}={python}: no such file"
    command = [python, "-c", script, *map(str, arguments)]
    try:
        done = subprocess.run(
            command, input=audio.astype("<f4").tobytes(), capture_output=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        return f"it did not finish in {timeout_s:.0f} s"
    if done.returncode:
        return (done.stderr.decode(errors="replace").strip().splitlines() or ["it failed"])[-1]
    return json.loads(done.stdout.splitlines()[-1])
