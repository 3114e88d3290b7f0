"""The architecture as it is written down: imports go downward only, each foreign library has one owner.

The table is that of docs/architecture.md. Imports inside functions count like all others.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "cosyd"

BASE = {"errors", "spec", "types", "version"}
WORKERS = BASE | {
    "config",
    "models",
    "engine",
    "ring",
    "capture",
    "array",
    "frontend",
    "gpu",
    "asr",
    "publish",
}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "spec": set(),
    "types": set(),
    "version": set(),
    "config": BASE,
    "models": BASE | {"config"},
    "engine": BASE | {"config", "models"},
    "ring": BASE,
    "capture": BASE | {"config", "ring"},
    "array": BASE | {"config"},
    "frontend": BASE | {"config", "models", "engine", "array"},
    "gpu": BASE | {"config", "models", "engine", "frontend"},
    "asr": BASE | {"config", "models", "engine"},
    "publish": BASE | {"config"},
    "client": BASE | {"publish"},
    "runtime": WORKERS,
    "app": WORKERS | {"runtime"},
    "bench": WORKERS | {"runtime", "app", "client"},
    "demo": WORKERS | {"runtime", "app", "client", "bench"},
    "cli": WORKERS | {"runtime", "app", "client", "bench"},
    "__main__": {"cli"},
    "pipeline": BASE | {"config", "publish", "ring", "runtime"},
    "": {"version", "pipeline"},
}
# Foreign libraries that one package alone may import; where a file is named, that file alone.
OWNERS: dict[str, set[str]] = {
    "onnxruntime": {"models/onnx.py", "engine/precision.py"},
    "yaml": {"config", "runtime/embedded.py"},
    "pydantic": {"config"},
    "zmq": {"publish"},
    "sounddevice": {"capture/portaudio.py"},
    "_sounddevice": {"capture/portaudio.py"},
    "pyaudio": {"capture/pyaudio_source.py"},
    "kenlm": {"asr/decoders/ngram.py"},
    "sentencepiece": {"asr/decoders/spelling.py"},
    "soundfile": {"capture/file.py", "capture/write.py"},
    "ctranslate2": {"asr/whisper_network.py"},
    "kaldi_native_fbank": {"asr/streaming/features.py"},
    "systemd": {"runtime/systemd.py"},
    "pycuda": {"gpu"},
    "tensorrt": {"engine"},
    "tensorrt_rtx_bindings": {"engine"},
    "prometheus_client": {"runtime"},
    "rich": {"cli", "demo.py"},
    "watchfiles": {"config"},
    "opencc": {"asr/text/script.py"},
    "wetext": {"asr/text/numbers.py"},
}
MEASURES = "bench"  # compares with the libraries themselves, so it may import any of them
BROUGHT_BY_PYDANTIC = {"annotated_types", "pydantic_core"}
FILES = sorted(PACKAGE.rglob("*.py"))


def part(name: str) -> str:
    """``cosyd.config.load`` -> ``config``."""
    return [*name.split("."), ""][1]


def home(path: Path) -> str:
    """The part that a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a file imports; those for type checkers alone are left out."""
    tree = ast.parse(path.read_text(), str(path))
    ignored = {id(node) for block in ast.walk(tree) if _is_for_checkers(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in ignored:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write it in full"
            assert node.module is not None
            if node.module == "cosyd":
                yield from ((node.lineno, f"cosyd.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module


def _is_for_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_downward(path: Path) -> None:
    here = home(path)
    assert here in MAY_IMPORT, f"{here} is no part of the architecture: add it there and here"
    upward = [
        f"{path.relative_to(REPOSITORY)}:{line}: {here} imports {name}"
        for line, name in imports(path)
        if name.split(".")[0] == "cosyd" and part(name) not in MAY_IMPORT[here] | {here}
    ]
    assert upward == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_foreign_libraries_have_one_owner(path: Path) -> None:
    inside = path.relative_to(PACKAGE).as_posix()
    strangers = [
        f"{path.relative_to(REPOSITORY)}:{line}: only {', '.join(sorted(owners))} may import {name}"
        for line, name in imports(path)
        if (owners := OWNERS.get(name.split(".")[0])) is not None
        and home(path) != MEASURES
        and inside not in owners
        and home(path) not in owners
    ]
    assert strangers == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_import_is_a_dependency(path: Path) -> None:
    """Nothing is imported that pyproject.toml does not ask for."""
    project = (REPOSITORY / "pyproject.toml").read_text().lower().replace("-", "_")
    as_named = {"yaml": "pyyaml", "zmq": "pyzmq", "_sounddevice": "sounddevice"}
    foreign = {
        name.split(".")[0] for _, name in imports(path)
    } - sys.stdlib_module_names - {"cosyd"}  # fmt: skip
    strangers = {name for name in foreign if f'"{as_named.get(name, name)}' not in project}
    assert strangers <= BROUGHT_BY_PYDANTIC


def test_the_parts_that_work_on_audio_do_not_know_each_other() -> None:
    for here in ("capture", "frontend", "asr", "publish"):
        assert not MAY_IMPORT[here] & {"capture", "frontend", "asr", "publish"}


def test_the_table_has_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(MAY_IMPORT):
        ready = {name for name, needs in MAY_IMPORT.items() if name not in done and needs <= done}
        assert ready, f"a cycle among {sorted(set(MAY_IMPORT) - done)}"
        done |= ready
