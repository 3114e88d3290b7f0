"""The real Whisper base on a real recording."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cosyd.asr.hotwords import Hotword
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.recognizers import hears, load_recognizer, streaming_folder
from cosyd.asr.whisper import Whisper
from cosyd.asr.whisper_tokens import Vocabulary
from cosyd.config.languages import LANGUAGES
from cosyd.config.schema import AsrConfig
from cosyd.errors import ConfigError, ModelDamaged, ModelMissing
from cosyd.models.store import ModelStore

SECOND = 16_000


@pytest.fixture(scope="module")
def whisper(whisper_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whisper]:
    """From a folder of one's own; by its name it is loaded in ``integration/test_chinese``."""
    mine = tmp_path_factory.mktemp("models") / "mine"
    mine.mkdir()
    for file in whisper_base.iterdir():
        (mine / file.name).symlink_to(file)
    config, store = AsrConfig(model="mine", beam=2), ModelStore(mine.parent)
    assert streaming_folder(config, store) is None
    recognizer = load_recognizer(config, store)
    assert isinstance(recognizer, Whisper)
    assert (recognizer.name, recognizer.limit_s) == ("mine", 30.0)
    yield recognizer
    recognizer.close()
    recognizer.close()


@pytest.fixture(scope="module")
def speech(models_dir: Path) -> np.ndarray:
    """Ever tried. Ever failed. No matter."""
    return resampled(models_dir / "demo-speech" / "beckett.wav")[: 5 * SECOND]


def resampled(path: Path) -> np.ndarray:
    import soundfile
    from scipy.signal import resample_poly

    audio, rate_hz = soundfile.read(path, dtype="float32")
    return resample_poly(audio, SECOND, rate_hz).astype(np.float32)


def test_text_language_words_and_confidence(whisper: Whisper, speech: np.ndarray) -> None:
    (said,) = whisper.transcribe([SegmentRequest(speech, words=True)])
    assert "ever tried" in said.text.lower()
    assert said.language == "en"
    assert 0.8 < (said.language_conf or 0) <= 1
    assert 0.5 < (said.conf or 0) <= 1
    assert [word.w for word in said.words] == said.text.split()
    assert len(said.sure) == len(said.words)
    starts = [word.start for word in said.words]
    assert starts == sorted(starts)
    assert all(0 <= word.start <= word.end <= 5 for word in said.words)
    assert any(word.end - word.start > 0.05 for word in said.words)


def test_a_promise_is_kept_and_hotwords_are_taken(whisper: Whisper, speech: np.ndarray) -> None:
    (said,) = whisper.transcribe(
        [SegmentRequest(speech, prompt="Never tried", hotwords=(Hotword("Beckett"),), quick=True)]
    )
    assert said.text.startswith("Never tried")
    assert "failed" in said.text.lower()


def test_noise_and_silence_are_no_text(whisper: Whisper) -> None:
    noise = (np.random.default_rng(1).standard_normal(2 * SECOND) * 0.003).astype(np.float32)
    texts = [said.text for said in whisper.transcribe([SegmentRequest(np.zeros_like(noise))])]
    assert texts == [""]
    (said,) = whisper.transcribe([SegmentRequest(noise)])
    assert said.text == "" or (said.conf or 0) < 0.5  # which short results in doubt need


def test_its_vocabulary(whisper_base: Path) -> None:
    vocabulary = Vocabulary.load(whisper_base)
    assert set(vocabulary.languages) == set(LANGUAGES) - {"yue"}  # which came with large-v3
    text = " Hello, it's 5 o'clock. 你好，世界。 Zażółć"
    tokens = vocabulary.encode(text)
    assert vocabulary.decode(tokens) == text
    assert len(tokens) < len(text)
    assert vocabulary.encode(" Hello world") == [2425, 1002]  # as the model's own tokenizer has it


def test_what_is_no_model(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    (tmp_path / "vocabulary.txt").write_text("<|endoftext|>\n<|startoftranscript|>")
    with pytest.raises(ModelMissing, match=r"no model\.bin"):
        Whisper.load(tmp_path, name="mine")
    (tmp_path / "model.bin").write_bytes(b"nothing of the kind")
    with pytest.raises(ModelDamaged, match="not a Whisper model"):
        Whisper.load(tmp_path, name="mine")


def test_without_the_library_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = builtins.__import__

    def refuse(name: str, *rest: object, **others: object) -> object:
        if name.partition(".")[0] == "ctranslate2":
            raise ImportError("no module named ctranslate2")
        return really(name, *rest, **others)  # type: ignore[arg-type]

    (tmp_path / "vocabulary.txt").write_text("<|endoftext|>\n<|startoftranscript|>")
    (tmp_path / "model.bin").write_bytes(b"x")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModelMissing, match=r"run: pip install cosyd\[whisper\]"):
        Whisper.load(tmp_path, name="mine")


@pytest.mark.parametrize("model", ["moonshine-tiny-en", "whisper-tiny-en"])
def test_models_of_english_say_which_model_to_take(model: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hears English only; set asr\.model to whisper-base for Chinese"):
        load_recognizer(AsrConfig(model=model, language="zh"), ModelStore(tmp_path))
    assert hears(model, "en")
    assert hears(model, "auto")
    assert hears("whisper-base", "zh")
