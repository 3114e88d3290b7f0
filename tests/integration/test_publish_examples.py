"""The examples of docs/subscribing.md, run against a daemon, and what that page has to say."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from publishing import Daemon

from cosyd.client import AsrFinal
from cosyd.publish import messages
from cosyd.publish.messages import decode

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "subscribing.md"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PACKAGE = Path(__file__).resolve().parents[2] / "cosyd"


@contextlib.contextmanager
def running(command: list[str], environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, bufsize=1, env={**os.environ, **(environment or {})}
    )
    try:
        yield process
    finally:
        process.terminate()
        with process:
            pass


def test_the_python_example(daemon: Daemon, tmp_path: Path) -> None:
    """As it stands in the documentation, without addresses: it finds the daemon of this machine."""
    environment = {"RUNTIME_DIRECTORY": str(tmp_path / "run"), "PYTHONUNBUFFERED": "1"}
    with running([sys.executable, str(EXAMPLES / "subscribe.py")], environment) as example:
        while daemon.tell("subscriptions") == "0":
            time.sleep(0.01)
        daemon.finals("hello from the microphone")
        assert example.stdout
        assert "hello from the microphone" in example.stdout.readline()


def test_the_c_example(daemon: Daemon, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not Path("/usr/include/zmq.h").exists():
        pytest.skip("no C compiler or no zmq.h (apt install libzmq3-dev)")
    program = str(tmp_path / "subscribe")
    source = str(EXAMPLES / "subscribe.c")
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-o", program, source, "-lzmq"], check=True)
    with running([program, daemon.events]) as example:
        while daemon.tell("subscriptions") == "0":
            time.sleep(0.01)
        daemon.finals("to be or not")
        assert example.stdout
        topic, _, data = example.stdout.readline().strip().partition(" ")
        assert topic == "asr.final.mic"
        message = decode(data.encode())
        assert isinstance(message, AsrFinal)
        assert message.text == "to be or not"


# --- the documentation ---------------------------------------------------------------------------------


def test_the_documented_example_is_the_tested_one() -> None:
    code = (EXAMPLES / "subscribe.py").read_text().split('"""')[2].strip()
    assert f"```python\n{code}\n```" in DOCUMENT.read_text()
    assert len(code.splitlines()) <= 10


def test_every_field_and_type_is_documented() -> None:
    text = DOCUMENT.read_text()
    for kind in get_args(messages.AnyMessage):
        names = [kind.__struct_config__.tag, *kind.__struct_encode_fields__]
        assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.parametrize("kind", [messages.Device, messages.State])
def test_every_value_is_documented(kind: type[messages.Message]) -> None:
    """Those that the type names in its own description, in its row of the page."""
    tag = kind.__struct_config__.tag
    row = next(line for line in DOCUMENT.read_text().splitlines() if line.startswith(f"| `{tag}`"))
    assert [name for name in re.findall(r"``(\w+)``", kind.__doc__ or "") if f"`{name}`" not in row] == []


def test_every_health_code_is_documented() -> None:
    told = re.compile(r"(?:Health\(|health\([\w.]+,|_tell\()\s*\"(\w+)\"|\"(crash_loop|worker_restarted)\"")
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    codes = {code or other for source in sources for code, other in told.findall(source)}
    assert {"gpu_fallback", "source_failed", "journal_failed", "inference_failed"} <= codes
    text = DOCUMENT.read_text()
    assert sorted(code for code in codes if f"`{code}`" not in text) == []
