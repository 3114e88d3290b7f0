"""``cosyd models calibrate``: what is read, what is refused, what lies beside the model afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cosyd.asr.confidence import Calibration
from cosyd.types import Transcript, Word

pytest.importorskip("rapidfuzz", reason="needs the bench extra")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "my-model"
    folder.mkdir()
    return folder


@pytest.fixture
def overconfident(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A recogniser that says ``right`` or ``wrong`` at 0.97 and 0.9, which is right 9 and 4 times in 10; it
    notes how many samples it heard."""
    heard: list[int] = []
    rng = np.random.default_rng(0)

    def recognise(audio: np.ndarray) -> Transcript:
        heard.append(audio.size)
        words = []
        for i in range(10):
            sure = bool(rng.random() < 0.5)
            hit = rng.random() < (0.9 if sure else 0.4)
            words.append(Word("right" if hit else "wrong", i, i + 1, 0.97 if sure else 0.9))
        return Transcript(" ".join(word.w for word in words), words=tuple(words))

    monkeypatch.setattr("cosyd.cli.models_calibrate._open", lambda asr, store, opened: recognise)
    return heard


def clips(folder: Path, count: int, rate_hz: int = 16_000) -> Path:
    """A list of so many recordings of half a second, in both notations."""
    lines = []
    text = " ".join(["right"] * 10)
    for i in range(count):
        soundfile.write(folder / f"{i}.wav", np.full(rate_hz // 2, 0.1, np.float32), rate_hz)
        entry = json.dumps({"file": f"{i}.wav", "text": text, "speaker": "a"})
        lines.append(entry if i % 2 else f"{i}.wav\t{text}")
    path = folder / "list.txt"
    path.write_text("\n".join(lines) + "\n\n")
    return path


def test_confidences_become_true(cosyd, tmp_path: Path, model: Path, overconfident: list[int]) -> None:
    found = json.loads(cosyd("models", "calibrate", model, clips(tmp_path, 120), "--json").out)
    assert (found["recordings"], found["words"]) == (120, 1200)
    assert found["error_before"] > 0.25
    assert found["error_after"] < 0.05
    assert found["file"] == str(model / "confidence.json")
    calibration = Calibration.of(model)
    told = [calibration(conf, (0.0, 0.0, np.log(5.0), 1.0)) for conf in (0.97, 0.9)]
    assert told[0] > told[1]
    assert set(overconfident) == {8_000}


def test_other_rates_are_brought_to_ours(cosyd, tmp_path, model, overconfident) -> None:
    done = cosyd("models", "calibrate", model, clips(tmp_path, 40, rate_hz=44_100), "--dry-run")
    assert done.code == 0, done.err
    assert set(overconfident) == {8_000}
    assert done.out.endswith("nothing was written\n")
    assert not (model / "confidence.json").exists()


def test_true_confidences_are_left_alone(cosyd, tmp_path, model, monkeypatch) -> None:
    monkeypatch.setattr("cosyd.cli.models_calibrate.held_out", lambda parts, folds: ([0.9] * 4, [False] * 4))
    rng = np.random.default_rng(1)

    def recognise(audio: np.ndarray) -> Transcript:
        words = [Word("right" if rng.random() < 0.8 else "wrong", i, i + 1, 0.8) for i in range(10)]
        return Transcript("", words=tuple(words))

    monkeypatch.setattr("cosyd.cli.models_calibrate._open", lambda asr, store, opened: recognise)
    done = cosyd("models", "calibrate", model, clips(tmp_path, 40))
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        "its confidences are true enough; nothing was written",
    )
    assert not (model / "confidence.json").exists()


def test_too_few_words_are_refused(cosyd, tmp_path, model, overconfident) -> None:
    done = cosyd("models", "calibrate", model, clips(tmp_path, 10))
    assert done.code == 1
    assert "100 recognised words" in done.err
    assert "a calibration needs 300, 20 of them right and 20 wrong" in done.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.wav and no tab", ":6: is not FILE<tab>TEXT"),
        ("none.wav\thello", ":6: there is no "),
        ('{"file": "0.wav"}', ":6: is no JSON with file and text: 'text'"),
        ('{"file": "0.wav", "text": 3}', ":6: is not FILE<tab>TEXT"),
    ],
)
def test_a_line_that_is_none_is_named(cosyd, tmp_path, model, overconfident, line: str, message: str) -> None:
    path = clips(tmp_path, 5)
    path.write_text(path.read_text().rstrip() + f"\n{line}\n")
    done = cosyd("models", "calibrate", model, path)
    assert (done.code, overconfident) == (2, [])
    assert f"{path}{message}" in done.err


def test_a_recording_that_is_none_is_named(cosyd, tmp_path, model, overconfident) -> None:
    path = clips(tmp_path, 5)
    (tmp_path / "2.wav").write_text("no sound")
    done = cosyd("models", "calibrate", model, path)
    assert (done.code, f"{tmp_path}/2.wav" in done.err) == (3, True)


def test_a_model_that_is_not_there_is_4(cosyd, tmp_path) -> None:
    done = cosyd("models", "calibrate", tmp_path / "nothing", clips(tmp_path, 5))
    assert (done.code, "no such folder" in done.err) == (4, True)
