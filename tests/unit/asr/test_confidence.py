"""Calibration of confidences."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from cosyd.asr.confidence import (
    Calibration,
    calibrated,
    calibration_error,
    evidence,
    expected,
    information,
    reliability,
)
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.errors import ModelDamaged
from cosyd.types import Transcript, Word


def words(slope: float, offset: float, count: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Confidences of a model that is off by a known line, and which words are right."""
    random = np.random.default_rng(0)
    confidences = random.beta(4, 1.5, count)
    odds = np.log(confidences / (1 - confidences))
    right = random.random(count) < 1 / (1 + np.exp(-(slope * odds + offset)))
    return confidences, right


@pytest.mark.parametrize(("slope", "offset"), [(0.5, -0.3), (1.0, 0.0), (1.8, 0.6)])
def test_the_line_is_found_and_makes_confidences_true(slope: float, offset: float) -> None:
    confidences, right = words(slope, offset)
    found = Calibration.fit(confidences, right)
    assert (found.slope, found.offset) == pytest.approx((slope, offset), abs=0.1)
    better = [found(p) for p in confidences]
    assert calibration_error(better, right) < 0.02
    if slope != 1:
        assert calibration_error(confidences, right) > 0.05


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 3), st.floats(-3, 3))
def test_order_is_kept(a: float, b: float, slope: float, offset: float) -> None:
    calibration = Calibration(slope, offset)
    low, high = sorted((a, b))
    assert 0 <= calibration(low) <= calibration(high) <= 1


def test_few_words_or_one_sided_ones_change_little() -> None:
    assert Calibration.fit([], []) == Calibration()
    found = Calibration.fit([0.9] * 3, [True] * 3)
    assert 0.9 < found(0.9) < 1


def test_the_diagram_and_its_error() -> None:
    found = reliability([0.9, 0.1, 0.2, 0.8], [True, False, True, True], bins=2)
    assert [(each.count, each.confidence, each.right) for each in found] == [
        (2, pytest.approx(0.15), 0.5),
        (2, pytest.approx(0.85), 1.0),
    ]
    assert calibration_error([0.9, 0.1, 0.2, 0.8], [True, False, True, True], 2) == pytest.approx(0.25)
    assert calibration_error([], []) == 0


def test_words_and_the_whole_are_calibrated() -> None:
    said = Transcript("a b", (1, 2), 0.5, (Word("a", 0, 1, 0.5), Word("b", 1, 2)), (0.4, 0.9))
    found = calibrated(said, Calibration(1, 1))
    assert found.conf == found.words[0].conf == pytest.approx(1 / (1 + np.exp(-1)))
    assert (found.words[1], found.sure, found.text) == (said.words[1], said.sure, said.text)
    assert calibrated(said, Calibration()) is said


def test_a_streaming_models_words_are_calibrated(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data.parent / "models" / "streaming-ctc-tiny"
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    with tarfile.open(shared_data / "train" / "kathleen.tar") as archive:
        recording = archive.extractfile(archive.getmembers()[0])
        assert recording is not None
        audio = soundfile.read(io.BytesIO(recording.read()), dtype="float32")[0]

    def recognised(path: Path) -> Transcript:
        recognizer = CachedStateRecognizer.load(path, name="tiny")
        slot = recognizer.open()
        recognizer.accept([slot], [audio])
        transcript = recognizer.finish(slot)
        recognizer.close()
        return transcript

    raw = recognised(tmp_path)
    Calibration(0.5, -0.5).save(tmp_path)
    found = recognised(tmp_path)
    assert len(found.words) > 2
    assert [word.conf for word in found.words] == [Calibration(0.5, -0.5)(w.conf) for w in raw.words]
    assert (found.text, found.sure) == (raw.text, raw.sure)


def test_it_lies_beside_the_model(tmp_path: Path) -> None:
    assert Calibration.of(tmp_path) == Calibration()
    assert Calibration()(0.7) == pytest.approx(0.7)
    Calibration(0.5, -0.25).save(tmp_path)
    assert Calibration.of(tmp_path) == Calibration(0.5, -0.25)
    (tmp_path / "confidence.json").write_text('{"slope": "steep"}')
    with pytest.raises(ModelDamaged, match="needs the numbers slope and offset"):
        Calibration.of(tmp_path)


def test_evidence_is_what_stands_around_a_word() -> None:
    odds = [float(np.log(p / (1 - p))) for p in (0.9, 0.6, 0.8)]
    said = Transcript(
        "A flat white.",
        words=(Word("A", 0, 1, 0.9), Word("flat", 1, 2, 0.6), Word("white.", 2, 3, 0.8)),
        others=("a flat wide", "a fat white"),
    )
    found = evidence(said)
    assert [row[0] for row in found] == pytest.approx([sum(odds) / 3] * 3)
    assert [row[1] for row in found] == pytest.approx([odds[1], odds[2], odds[1]])
    assert [row[2] for row in found] == pytest.approx([0, np.log(4), np.log(5)])
    assert [row[3] for row in found] == [1, 0.5, 0.5]
    alone = evidence(Transcript("a", words=(Word("a", 0, 1, 0.9),)))
    assert alone == [pytest.approx((odds[0], odds[0], 0, 1))]
    assert evidence(Transcript("")) == []


def test_evidence_that_tells_gets_a_weight_and_tells_more() -> None:
    random = np.random.default_rng(1)
    confidences, hints = random.beta(4, 1.5, 8_000), random.normal(size=(8_000, 4))
    odds = np.log(confidences / (1 - confidences)) + 1.5 * hints[:, 1]
    right = random.random(8_000) < 1 / (1 + np.exp(-odds))
    plain, better = Calibration.fit(confidences, right), Calibration.fit(confidences, right, hints)
    assert better.beside == pytest.approx(1.5, abs=0.15)
    assert (better.whole, better.letters, better.agreement) == pytest.approx((0, 0, 0), abs=0.1)
    told = [better(p, hint) for p, hint in zip(confidences, hints, strict=True)]
    assert calibration_error(told, right) < 0.03
    assert information(told, right) > information([plain(p) for p in confidences], right) + 0.2


def test_information_is_one_for_certainty_and_nothing_for_the_mean() -> None:
    assert information([1.0, 0.0, 1.0], [True, False, True]) == pytest.approx(1, abs=0.001)
    assert information([0.5, 0.5], [True, False]) == pytest.approx(0)
    assert information([0.1, 0.9], [True, False]) < 0
    assert information([0.7], [True]) == information([], []) == 0


def test_the_share_of_words_that_is_likely_right() -> None:
    assert expected([Word("a", 0, 1, 0.5), Word("b", 1, 2), Word("c", 2, 3, 1.0)], 0.1) == 0.75
    assert expected([Word("a", 0, 1)], 0.1) == 0.1
    assert expected([], None) is None
