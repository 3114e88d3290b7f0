"""Commands on real speech, as processes of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cosyd.config.paths import Paths, ring_path

PATIENCE_S = 100.0  # of a test's 120: the machines of tests are slow and shared


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


def test_listen_that_is_killed_leaves_no_daemon_behind(environment: dict[str, str]) -> None:
    """Not even one that goes on holding the microphone; the rings go, too."""
    process = start(environment, "listen", "--set", "sources.mic.loop=true")
    children = _family(process.pid)
    runtime = _runtime(children)
    ring = ring_path(Paths(*5 * (runtime,)), "mic")
    _wait_for(ring)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    _, alive = psutil.wait_procs(children, PATIENCE_S)
    shutil.rmtree(runtime.parent)  # nobody is left who could have done it
    assert alive == []
    assert not ring.exists()


@pytest.mark.parametrize(
    "settings",
    [
        ["sources.mic.path=/no/such.wav"],
        ["sources.mic.type=portaudio", "sources.mic.path=null", "sources.mic.device=no such device"],
    ],
    ids=["file", "device"],
)
def test_listen_to_what_is_not_there_is_3(environment: dict[str, str], settings: list[str]) -> None:
    process = start(environment, "listen", *(word for item in settings for word in ("--set", item)))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (3, ""), err
    assert "no such" in err.splitlines()[-1].replace("/", " ")


def _family(pid: int) -> list[psutil.Process]:
    """The daemon and its two workers, once all are there."""
    deadline = time.monotonic() + PATIENCE_S
    while len(children := psutil.Process(pid).children(recursive=True)) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return children


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runtime(daemon_and_workers: list[psutil.Process]) -> Path:
    """The folder of the private daemon's sockets."""
    command = next(line for p in daemon_and_workers if "--lifeline" in (line := p.cmdline()))
    return Path(command[command.index("-c", 3) + 1]).parent / "run"
