"""Exit codes, error lines, help: what holds for every command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosyd.cli import program
from cosyd.cli.options import Parser
from cosyd.cli.parser import build_parser
from cosyd.errors import ConfigError, CosydError, DeviceNotFound, GpuError, ModelMissing
from cosyd.version import VERSION

COSYD = [sys.executable, "-m", "cosyd"]


def commands(parser: Parser, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group, each as the words one types."""
    yield above
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for name, child in action.choices.items():
                yield from commands(child, (*above, name))


ALL = list(commands(build_parser()))


@pytest.mark.parametrize(("own", "threads"), [({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, 2)], ids=["", "2"])
def test_products_of_matrices_take_one_thread_unless_told_otherwise(
    own: dict[str, str], threads: int
) -> None:
    program = """import os; from cosyd.cli import main; main(["version"]); import numpy as np
x = np.ones((600, 600)); x @ x; print(len(os.listdir("/proc/self/task")))"""
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", program], env=free | own, capture_output=True, check=True)
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor: there is nothing to share")
    assert int(done.stdout.split()[-1]) == threads


def test_the_commands_of_the_interface_are_there() -> None:
    wanted = """run;listen;transcribe;devices;level;doctor;config check;config show;config schema;models list;
    models pull;models verify;models info;models rm;sub;ctl status;ctl reload;ctl mute;ctl unmute;ctl replay;
    ctl hotwords;ctl shutdown;bench;version;keys"""
    assert {tuple(words.split()) for words in wanted.split(";")} <= set(ALL)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_help(cosyd, words: tuple[str, ...]) -> None:
    done = cosyd(*words, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: {' '.join(('cosyd', *words))}")
    assert done.err == ""


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_names_a_function_that_exists(words: tuple[str, ...]) -> None:
    from importlib import import_module

    parser = build_parser()
    for word in words:
        (subparsers,) = (
            action
            for action in parser._actions
            if isinstance(action.choices, dict) and word in action.choices
        )
        parser = subparsers.choices[word]  # type: ignore[index]
    if parser.get_default("module"):
        assert callable(getattr(import_module(parser.get_default("module")), parser.get_default("function")))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("nonsense", "cosyd: argument COMMAND: invalid choice: 'nonsense'"),
        ("", "cosyd: the following arguments are required: COMMAND; see: cosyd --help"),
        ("ctl", "cosyd: the following arguments are required: ACTION; see: cosyd ctl --help"),
        ("ctl replay --since -1", "cosyd: argument --since: must be a whole number, 0 or more, not '-1'"),
        ("ctl status --timeout 0", "cosyd: argument --timeout: must be a number above 0, not '0'"),
        ("level --seconds nan", "cosyd: argument --seconds: must be a number above 0, not 'nan'"),
        ("level --seconds x", "cosyd: argument --seconds: must be a number above 0, not 'x'"),
        ("version --jsn", "cosyd: unrecognized arguments: --jsn"),
        ("level --source door", "cosyd: no source named 'door'; the configuration has mic"),
        ("config show --set vad.treshold=1", "cosyd: --set vad.treshold: vad.treshold: unknown key, did"),
        ("run -c /nowhere.yaml", "cosyd: /nowhere.yaml: cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_code_2(cosyd, words: str, line: str) -> None:
    done = cosyd(*words.split())
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(line)
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CosydError("a"), 1),
        (ConfigError(["a", "b"]), 2),
        (DeviceNotFound("a"), 3),
        (ModelMissing("a"), 4),
        (GpuError("a"), 5),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("debug", [False, True])
def test_errors_decide_the_exit_code(
    cosyd, monkeypatch: pytest.MonkeyPatch, error: CosydError, code: int, debug: bool
) -> None:
    def fails(_: object) -> int:
        raise error

    monkeypatch.setattr("cosyd.cli.version.run", fails)
    done = cosyd("version", *(["--debug"] if debug else []))
    assert done.code == code
    lines = done.err.splitlines()
    assert lines[-1] == f"cosyd: {str(error).splitlines()[-1]}"
    assert ("Traceback" in done.err) is debug
    assert len(lines) == len(str(error).splitlines()) or debug


@pytest.mark.parametrize("value", ["1", "yes", "true"])
def test_debug_from_the_environment(cosyd, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("COSYD_DEBUG", value)
    assert "Traceback" in cosyd("run", "-c", "/nowhere.yaml").err


@pytest.mark.parametrize("value", ["0", "false", "off", "no", ""])
def test_debug_is_off_when_the_environment_says_so(
    cosyd, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("COSYD_DEBUG", value)
    assert "Traceback" not in cosyd("run", "-c", "/nowhere.yaml").err


def test_ctrl_c_is_130_without_a_word(cosyd, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("cosyd.cli.version.run", interrupted)
    done = cosyd("version")
    assert (done.code, done.out, done.err) == (130, "", "")


def test_a_fault_of_ours_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    program._report_fault(KeyError, KeyError("x"), None)
    expected = "cosyd: internal error: KeyError: 'x'; run it again with --debug to see where\n"
    assert capsys.readouterr().err == expected


# --- as a process --------------------------------------------------------------------------------------


def test_version_as_a_process() -> None:
    done = subprocess.run([*COSYD, "version"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"cosyd {VERSION}\n", "")


def test_faults_and_errors_as_a_process(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("vad: {threshold: 2}\n")
    done = subprocess.run(
        [*COSYD, "run", "-c", file], capture_output=True, text=True, timeout=60, check=False
    )
    line = f"cosyd: {file}:1: vad.threshold: must be a number, above 0, below 1, not 2\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def test_a_reader_that_leaves_is_no_error() -> None:
    """As ``cosyd config schema | head -1`` does."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*COSYD, "config", "schema"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_documentation_names_every_command() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs/commands.md").read_text()
    missing = [words for words in ALL if len(words) == 1 and f"`cosyd {words[0]}" not in text]
    assert missing == []
    assert [words[1] for words in ALL if len(words) == 2 and words[1] not in text] == []
