"""``cosyd run``, ``listen``, ``transcribe`` and ``bench``: what they ask of the parts below them."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import pytest

from cosyd.bench import report
from cosyd.cli.listen import _settings
from cosyd.client import AsrFinal
from cosyd.config.load import Loaded, load
from cosyd.config.paths import Locations
from cosyd.config.schema import Config, SourceConfig
from cosyd.gpu.probe import why_unusable


def test_run_hands_over_the_configuration_and_how_to_read_it_again(
    cosyd, tmp_path: Path, monkeypatch
) -> None:
    seen = []

    def daemon(loaded: Loaded, reload, lifeline: int | None) -> int:
        assert lifeline is None
        seen.append(loaded.config.vad.threshold)
        file.write_text("vad: {threshold: 0.3}\n")
        seen.append(reload().config.vad.threshold)
        return 130

    monkeypatch.setattr("cosyd.cli.run.run_daemon", daemon)
    file = tmp_path / "c.yaml"
    file.write_text("vad: {threshold: 0.4}\n")
    assert cosyd("run", "-c", file, "--set", "log.level=error").code == 130
    assert seen == [0.4, 0.3]


def test_listen_is_private_and_keeps_the_rest() -> None:
    overrides = [
        "sources=[{name: a}, {name: b, device: 3}]", "vad.threshold=0.4", "publish.endpoint=tcp://127.0.0.1:5",
        "control.endpoint=tcp://127.0.0.1:6", "metrics.enabled=true", "paths.models=/m", "paths.state=/s",
    ]  # fmt: skip
    loaded = load(Locations(()), overrides, {})
    settings = _settings(loaded, loaded.config.sources[1])
    child = Config.model_validate(settings)
    assert child.sources == (SourceConfig(name="b", device=3),)
    assert child.vad.threshold == 0.4
    assert (child.publish.endpoint, child.control.endpoint, child.metrics.enabled) == (None, None, False)
    assert settings["paths"] == {"models": "/m"}  # the rest is the embedded daemon's own


# --- transcribe ----------------------------------------------------------------------------------------


@pytest.fixture
def heard(monkeypatch) -> Namespace:
    """A transcriber that says one sentence for each file."""
    asked = Namespace()

    def fake(files, config, *, realtime, on_final, on_progress):
        asked.files, asked.model, asked.realtime = files, config.asr.model, realtime
        for number, file in enumerate(files, 1):
            final = AsrFinal(
                source="file", seq=number, utt=1, text=f"Text {number}.", start=1.5, end=2.0, reason="silence"
            )
            on_final(Path(file), final)
        return []

    monkeypatch.setattr("cosyd.cli.transcribe.transcribe", fake)
    return asked


def test_transcribe_for_people(cosyd, heard) -> None:
    assert cosyd("transcribe", "a.wav").out == "    1.50  Text 1.\n"
    assert cosyd("transcribe", "a.wav", "b.wav").out == "a.wav:     1.50  Text 1.\nb.wav:     1.50  Text 2.\n"


def test_transcribe_as_json_lines_with_the_file(cosyd, heard) -> None:
    done = cosyd("transcribe", "--json", "--realtime", "--model", "/a/model", "a.wav", "b.wav")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [(line["file"], line["type"], line["text"]) for line in lines] == [
        ("a.wav", "asr.final", "Text 1."),
        ("b.wav", "asr.final", "Text 2."),
    ]
    assert (heard.files, heard.model, heard.realtime) == (["a.wav", "b.wav"], "/a/model", True)
    assert done.err == ""


def test_transcribe_something_that_is_no_recording_is_3(cosyd, models_dir: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.wav"
    text.write_text("no sound here")
    done = cosyd("transcribe", text, "--set", f"paths.models={models_dir}")
    assert (done.code, done.out) == (3, "")
    assert "notes.wav" in done.err


def test_transcribe_without_models_is_4_and_says_how_to_get_them(cosyd, tmp_path: Path) -> None:
    done = cosyd("transcribe", tmp_path / "a.wav")
    assert (done.code, done.out) == (4, "")
    assert "cosyd models pull" in done.err
    assert done.err.count("\n") == 1


# --- bench ---------------------------------------------------------------------------------------------


RESULT = {
    "name": "ring", "title": "The ring", "method": "By hand.", "quick": True, "figures": [], "tables": [],
}  # fmt: skip


@pytest.fixture
def ring_bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A benchmark that takes no time; the folder that reports are kept in."""
    fake = ModuleType("cosyd.bench.ring")
    fake.run = lambda quick: {
        **RESULT,
        "environment": report.environment() | {"load_before": 0.5},
        "quick": quick,
    }
    monkeypatch.setitem(sys.modules, "cosyd.bench.ring", fake)
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    return tmp_path


def test_bench_prints_a_page_and_keeps_it(cosyd, ring_bench: Path) -> None:
    done = cosyd("bench", "ring")
    assert done.out.startswith("# The ring\n")
    assert (ring_bench / "ring.md").read_text() == done.out
    assert json.loads((ring_bench / "ring.json").read_text())["quick"] is False
    assert "written to" in done.err


def test_a_quick_bench_is_not_kept(cosyd, ring_bench: Path) -> None:
    assert json.loads(cosyd("bench", "ring", "--quick", "--json").out)["quick"] is True
    assert list(ring_bench.iterdir()) == []


def test_parts_may_be_named_one_by_one(cosyd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one alone would be measured without a word about the others."""
    asked: list[list[str]] = []
    fake = ModuleType("cosyd.bench.array")
    fake.run = lambda quick, only: asked.append(only) or {**RESULT, "environment": report.environment()}
    monkeypatch.setitem(sys.modules, "cosyd.bench.array", fake)
    cosyd("bench", "array", "--quick", "--json", "--only", "cost", "--only", "words", "beams")
    assert asked == [["cost", "words", "beams"]]


def test_hours_belong_to_streaming_models(cosyd, ring_bench: Path) -> None:
    done = cosyd("bench", "ring", "--hours", "10")
    assert (done.code, done.out) == (2, "")
    assert "--hours belongs to bench streaming" in done.err


def test_bench_of_a_gpu_that_is_not_there_is_5(cosyd) -> None:
    if why_unusable() is None:
        pytest.skip("there is a GPU")
    done = cosyd("bench", "gpu", "--quick")
    assert (done.code, done.out) == (5, "")
    assert done.err.startswith("cosyd: ")
