"""``cosyd models``, on a store of tiny files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosyd.errors import ModelError
from cosyd.models.model import Model, ModelFile, Wheel, WheelBuild
from cosyd.models.registry import MODELS

CONTENT = b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def tiny(name: str) -> Model:
    file = ModelFile("net.onnx", len(CONTENT), SHA256, "x/net.onnx", "https://example.invalid/net.onnx")
    return Model(name, f"The {name} model", "MIT", (file,), Wheel("pkg", "1.0", (WheelBuild("0" * 64),)))


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Two tiny models instead of the real ones."""
    kept = dict(MODELS)
    MODELS.clear()
    MODELS.update({name: tiny(name) for name in ("alpha", "beta")})
    yield
    MODELS.clear()
    MODELS.update(kept)


def install(tmp_path: Path, name: str, content: bytes = CONTENT) -> Path:
    folder = tmp_path / "models" / name
    folder.mkdir(parents=True)
    (folder / "net.onnx").write_bytes(content)
    return folder


def test_list(cosyd, tmp_path: Path) -> None:
    install(tmp_path, "alpha")
    assert cosyd("models", "list").out.splitlines() == [
        "NAME   THERE  SIZE    LICENCE  WHAT",
        "alpha  yes    0.0 MB  MIT      The alpha model",
        "beta   no     0.0 MB  MIT      The beta model",
    ]
    listed = json.loads(cosyd("models", "list", "--json").out)
    assert [(entry["name"], entry["installed"]) for entry in listed] == [("alpha", True), ("beta", False)]


def test_verify_what_is_there(cosyd, tmp_path: Path) -> None:
    install(tmp_path, "alpha")
    done = cosyd("models", "verify")
    assert (done.code, done.out, done.err) == (0, "alpha: fine\n", "")


def test_verify_tells_each_fault_and_is_4(cosyd, tmp_path: Path) -> None:
    install(tmp_path, "alpha", b"wEights")
    done = cosyd("models", "verify", "alpha", "beta")
    assert (done.code, done.out) == (4, "")
    first, second = done.err.splitlines()
    assert first.startswith(f"cosyd: {tmp_path}/models/alpha/net.onnx: sha256 ")
    assert first.endswith("damaged; run: cosyd models pull alpha")
    assert second.endswith("run: cosyd models pull beta")
    reply = json.loads(cosyd("models", "verify", "alpha", "--json").out)
    assert reply[0]["ok"] is False


def test_verify_an_empty_store(cosyd, tmp_path: Path) -> None:
    assert cosyd("models", "verify").out == f"no models in {tmp_path}/models\n"


def test_info(cosyd, tmp_path: Path) -> None:
    install(tmp_path, "beta")
    assert cosyd("models", "info", "alpha").out.splitlines() == [
        "alpha: The alpha model",
        "  licence  MIT",
        "  from     pkg==1.0",
        f"  path     {tmp_path}/models/alpha (not there; run: cosyd models pull alpha)",
        f"  net.onnx  0.0 MB  sha256 {SHA256}",
    ]
    assert [entry["installed"] for entry in json.loads(cosyd("models", "info", "--json").out)] == [
        False,
        True,
    ]


def test_an_unknown_name_is_4_and_suggests(cosyd) -> None:
    for action in ("info", "rm", "verify", "pull"):
        done = cosyd("models", action, "alhpa")
        assert done.code == 4
        assert done.err == "cosyd: alhpa: no such model; did you mean 'alpha'?\n"


def test_rm(cosyd, tmp_path: Path) -> None:
    folder = install(tmp_path, "alpha")
    assert cosyd("models", "rm", "alpha", "beta").out == "alpha: removed\nbeta: was not there\n"
    assert not folder.exists()


def test_pull_reports_progress_on_stderr_and_results_on_stdout(cosyd, tmp_path: Path, monkeypatch) -> None:
    def fake(names, store, progress):
        for done in (0, 3, 7):
            progress("beta", done, 7)
        return ["beta"]

    monkeypatch.setattr("cosyd.cli.models.pull_all", fake)
    done = cosyd("models", "pull")
    assert done.err == "cosyd: fetching beta\n"
    assert done.out.splitlines() == [
        f"alpha: there already, {tmp_path}/models/alpha",
        f"beta: fetched, {tmp_path}/models/beta",
    ]


def test_pull_that_fails(cosyd, monkeypatch) -> None:
    def fake(names, store, progress):
        raise ModelError("no network; check it")

    monkeypatch.setattr("cosyd.cli.models.pull_all", fake)
    done = cosyd("models", "pull", "alpha")
    assert (done.code, done.out, done.err) == (4, "", "cosyd: no network; check it\n")
