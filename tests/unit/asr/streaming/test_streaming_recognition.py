"""asr.model may be the path of a streaming model's folder, or its name among the models."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cosyd.asr.hotwords import Hotword
from cosyd.asr.recognition import open_recogniser
from cosyd.asr.streaming.listener import StreamingListener
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.asr.streaming.stream_queue import StreamQueue
from cosyd.config.schema import AsrConfig
from cosyd.errors import ConfigError, ModelError, ModelMissing
from cosyd.models.store import ModelStore

FolderOf = Callable[[str], Path]


def test_by_path_and_by_name(folder_of: FolderOf, tmp_path: Path) -> None:
    source = folder_of("zipformer2-ctc")
    shutil.copytree(source, tmp_path / "mine")
    for model in (str(source), "mine"):
        with open_recogniser(AsrConfig(model=model), ModelStore(tmp_path), 2) as recognition:
            assert isinstance(recognition.queue, StreamQueue)
            assert recognition.listen is StreamingListener
            assert "zipformer2" in recognition.backend.reason


def test_what_is_neither(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    with (
        pytest.raises(ModelMissing, match="no such folder"),
        open_recogniser(AsrConfig(model=str(tmp_path / "gone")), store, 1),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="folder of any streaming model"),
        open_recogniser(AsrConfig(model="qqq"), store, 1),
    ):
        pass


def test_a_store_knows_folders_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    store = ModelStore(tmp_path)
    assert store.own("mine") == store.path("mine") == store.require("mine") == tmp_path / "mine"
    assert store.own("moonshine-tiny-en") is None
    assert store.installed("mine")
    assert not store.installed(str(tmp_path / "gone"))
    with pytest.raises(ModelMissing):
        store.require(str(tmp_path / "gone"))
    with pytest.raises(ModelError, match="your own"):
        store.remove("mine")


def test_hotwords_of_characters_are_spelt_and_favoured(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = tmp_path / "chinese"
    shutil.copytree(folder_of("zipformer2"), folder)
    pieces = ["<blk>", "<sos/eos>", "<unk>", *(chr(0x4E00 + i) for i in range(37))]
    lines = [f"{piece} {i}" for i, piece in enumerate(pieces)]
    (folder / "tokens.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recognizer = CachedStateRecognizer.load(folder, name="chinese", capacity=2)
    phrase = pieces[5] + pieces[7]
    assert recognizer.unusable([Hotword(phrase)]) == ()
    (rejected,) = recognizer.unusable([Hotword("你好")])
    assert "你" in rejected.reason
    slot = recognizer.open([Hotword(phrase, 3.0), Hotword("你好")])
    assert recognizer.streams._streams[slot].graph is not None
    plain = recognizer.open()
    assert recognizer.streams._streams[plain].graph is None
    recognizer.close()
