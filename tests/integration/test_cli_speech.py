"""Commands on real speech, as processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

PATIENCE_S = 60.0


@pytest.fixture
def environment(models_dir: Path, tmp_path: Path) -> dict[str, str]:
    """Folders of this test's own, the recording instead of a microphone."""
    settings = {
        "PATHS__MODELS": models_dir,
        "PATHS__STATE": tmp_path / "state",
        "PATHS__CACHE": tmp_path / "cache",
        "PATHS__RUNTIME": tmp_path / "run",  # must not reach the private daemon of listen
        "SOURCES__MIC__TYPE": "file",
        "SOURCES__MIC__PATH": models_dir / "demo-speech" / "beckett.wav",
    }
    return {**os.environ, **{f"COSYD_{name}": str(value) for name, value in settings.items()}}


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cosyd", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_transcribe(environment: dict[str, str], models_dir: Path) -> None:
    recording = models_dir / "demo-speech" / "beckett.wav"
    process = start(environment, "transcribe", "--json", str(recording))
    out, err = process.communicate(timeout=PATIENCE_S)
    finals = [json.loads(line) for line in out.splitlines()]
    text = " ".join(final["text"] for final in finals).lower()
    assert (process.returncode, err) == (0, "")
    assert all(words in text for words in ("ever tried", "ever failed", "no matter", "better"))
    assert all(final["file"] == str(recording) for final in finals)


def test_transcribe_goes_on_after_a_file_that_is_none(
    environment: dict[str, str], models_dir: Path, tmp_path: Path
) -> None:
    recording = models_dir / "demo-speech" / "beckett.wav"
    text = tmp_path / "notes.txt"
    text.write_text("no recording")
    process = start(
        environment, "transcribe", "--json", str(text), str(recording), str(tmp_path / "gone.wav")
    )
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert {json.loads(line)["file"] for line in out.splitlines()} == {str(recording)}
    assert [line.split(":")[0] for line in err.splitlines()] == ["cosyd", "cosyd"]
    assert "notes.txt" in err
    assert "gone.wav" in err


def test_listen_ends_with_its_recording_and_a_summary(environment: dict[str, str]) -> None:
    """Into a pipe: results alone on standard output."""
    process = start(environment, "listen", "--set", "sources.mic.realtime=false")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert re.fullmatch(r"(\d\d:\d\d:\d\d  .+  \d+ ms\n)+", out)
    assert "ever tried" in out.lower()
    assert re.search(r"cosyd: \d utterances, \d+ words in 10\.\d s", err)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_listen_leaves_no_daemon_behind(environment: dict[str, str], number: int, code: int) -> None:
    process = start(environment, "listen", "--set", "sources.mic.loop=true")
    children = _family(process.pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, err
    gone, alive = psutil.wait_procs(children, PATIENCE_S)
    assert alive == []
    assert len(gone) == len(children)


def _family(pid: int) -> list[psutil.Process]:
    """The daemon and its two workers, once all are there."""
    deadline = time.monotonic() + PATIENCE_S
    while len(children := psutil.Process(pid).children(recursive=True)) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return children
