"""``cosyd transcribe --language`` and ``cosyd models pull``: which model is taken, which are fetched."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from cosyd.asr.recognizers import runs_whisper
from cosyd.cli.doctor import models
from cosyd.cli.models import needed
from cosyd.config.schema import AsrConfig, Config
from cosyd.models.registry import MODELS
from cosyd.models.store import ModelStore


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AsrConfig]:
    """What recognisers were asked for."""
    configs: list[AsrConfig] = []
    monkeypatch.setattr(
        "cosyd.cli.transcribe.transcribe", lambda files, config, **_: configs.append(config.asr) or []
    )
    return configs


@pytest.mark.parametrize(
    ("options", "model", "language"),
    [
        (["--language", "zh"], "whisper-base", "zh"),
        (["--language", "no"], "whisper-base", "no"),
        (["--language", "en"], "moonshine-tiny-en", "en"),
        (["--language", "en,zh"], "whisper-base", "en,zh"),
        (["--language", "auto"], "moonshine-tiny-en", "auto"),
        (["--language", "zh", "--model", "whisper-tiny-en"], "whisper-tiny-en", "zh"),  # refused by the model
        (["--language", "de", "--set", "asr.model=/my/whisper"], "/my/whisper", "de"),
        ([], "moonshine-tiny-en", "auto"),
    ],
)
def test_a_language_brings_a_model_that_hears_it(
    cosyd, asked: list[AsrConfig], options: list[str], model: str, language: str
) -> None:
    done = cosyd("transcribe", "a.wav", *options)
    assert done.code == 0
    assert [(asr.model, asr.language) for asr in asked] == [(model, language)]
    replaced = model == "whisper-base"
    assert ("hears English only; using whisper-base" in done.err) == replaced


def test_a_language_that_there_is_not(cosyd, asked: list[AsrConfig]) -> None:
    done = cosyd("transcribe", "a.wav", "--language", "chinese")
    assert done.code == 2
    assert "did you mean 'zh' (Chinese)?" in done.err
    assert asked == []


def test_doctor_looks_for_both_passes_and_for_what_whisper_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(asr=AsrConfig(model="/my/zipformer", second_pass="whisper-base"))
    assert models.needed(config)[:2] == ["/my/zipformer", "whisper-base"]
    (tmp_path / "model.bin").write_bytes(b"")
    store = ModelStore(tmp_path.parent)
    assert [runs_whisper(name, store) for name in ("whisper-base", str(tmp_path), "moonshine-tiny-en")] == [
        True,
        True,
        False,
    ]

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(models, "version", missing)
    check = models.ctranslate2()
    assert (check.status, check.remedy) == ("fail", "pip install cosyd[whisper]")


def test_models_pulled_without_a_name_are_the_usual_ones_and_those_configured() -> None:
    usual = [name for name, model in MODELS.items() if not model.extra]
    assert needed(Config()) == usual
    assert "whisper-base" not in usual
    assert needed(Config(asr=AsrConfig(model="whisper-base"))) == [*usual, "whisper-base"]
    mine = AsrConfig(model="/my/own", second_pass="whisper-base")
    assert needed(Config(asr=mine)) == [*usual, "whisper-base"]
