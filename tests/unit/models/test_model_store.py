"""The store says exactly what is wrong with a file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from cosyd.errors import ModelDamaged, ModelError, ModelMissing
from cosyd.models import registry
from cosyd.models import store as store_module
from cosyd.models.model import Model, ModelFile, Wheel, WheelBuild
from cosyd.models.registry import MODELS, lookup
from cosyd.models.store import ModelStore, sha256_of

CONTENT = b"weights" * 1000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    """A store that holds one small model, intact."""
    file = ModelFile(
        "net.onnx", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "p/net.onnx", "file:///no"
    )
    model = Model("tiny", "a tiny one", "MIT", (file,), Wheel("tiny", "1", (WheelBuild("0"),)))
    monkeypatch.setitem(registry.MODELS, "tiny", model)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "net.onnx").write_bytes(CONTENT)
    return ModelStore(tmp_path)


def test_an_intact_model_is_given(store: ModelStore) -> None:
    assert store.require("tiny") == store.root / "tiny"
    assert store.installed("tiny")


def test_a_truncated_file_is_called_truncated_with_both_sizes(store: ModelStore) -> None:
    store.file("tiny", "net.onnx").write_bytes(CONTENT[:1024])
    with pytest.raises(
        ModelDamaged, match=r"1,024 bytes instead of 7,000: truncated; run: cosyd models pull tiny"
    ):
        store.require("tiny")
    assert not store.installed("tiny")


def test_a_file_is_read_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    before = store_module._sha256.cache_info()
    assert sha256_of(path) == sha256_of(path) == hashlib.sha256(b"one").hexdigest()
    after = store_module._sha256.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 1)
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert sha256_of(path) == hashlib.sha256(b"two").hexdigest()


def test_one_flipped_bit_is_found(store: ModelStore) -> None:
    store.file("tiny", "net.onnx").write_bytes(b"W" + CONTENT[1:])
    with pytest.raises(ModelDamaged, match=r"net\.onnx: sha256 .* damaged; run: cosyd models pull tiny"):
        store.require("tiny")


def test_a_file_that_is_too_long_is_found(store: ModelStore) -> None:
    store.file("tiny", "net.onnx").write_bytes(CONTENT + b"x")
    with pytest.raises(ModelDamaged, match="too long"):
        store.require("tiny")


def test_a_missing_file_and_a_missing_folder_name_the_command(store: ModelStore) -> None:
    store.file("tiny", "net.onnx").unlink()
    with pytest.raises(ModelMissing, match="cosyd models pull tiny"):
        store.require("tiny")
    assert store.remove("tiny")
    with pytest.raises(ModelMissing, match=r"model tiny is not in .*cosyd models pull tiny"):
        store.require("tiny")
    assert not store.remove("tiny")


def test_an_unknown_name_gets_the_nearest_one(store: ModelStore) -> None:
    with pytest.raises(ModelMissing, match="did you mean 'moonshine-tiny-en'"):
        store.path("moonshine-tiny")


def test_a_folder_of_the_users_own_is_taken_as_it_is(store: ModelStore, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    assert store.require(str(folder)) == folder
    with pytest.raises(ModelError, match="of your own"):
        store.remove(str(folder))
    assert folder.is_dir()


def test_the_registry_is_complete() -> None:
    for model in MODELS.values():
        assert model.licence and model.size > 0 and lookup(model.name) is model
        for file in model.files:
            assert (
                len(file.sha256) == 64
                and file.name in file.member
                and (file.url.startswith("https://") or model.extra)
            )
        assert all(len(build.sha256) == 64 for wheel in model.wheels for build in wheel.builds)


def test_a_wheel_is_chosen_for_the_machine_and_any_where_there_is_none() -> None:
    wheel = lookup("moonshine-tiny-en").wheel
    assert wheel.build("aarch64").platform == "manylinux_2_34_aarch64"
    assert wheel.build("riscv64") == wheel.builds[0]


def test_the_pulled_models_are_intact(models_dir: Path) -> None:
    store = ModelStore(models_dir)
    for name, model in MODELS.items():
        if not model.extra or store.installed(name):
            store.verify(name)
            assert store.installed(name)
