"""Recognisers whose words carry corrected confidences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from cosyd.asr.calibrated import SHIPPED, CalibratedRecognizer, calibration_of, told
from cosyd.asr.confidence import NOTHING, Calibration, evidence
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.recognizer import SegmentRequest
from cosyd.errors import ModelDamaged
from cosyd.types import Backend, Transcript, Word

REQUEST = SegmentRequest(np.zeros(16_000, np.float32))
SAID = Transcript(
    "a flat white",
    (1, 2, 3),
    0.7,
    (Word("a", 0, 1, 0.9), Word("flat", 1, 2, 0.6), Word("white", 2, 3)),
    (0.9, 0.6, 0.8),
    ("a flat wide", "a fat white"),
)


class Known:
    """Always says the same; ``closed`` tells that it was."""

    family: Literal["segment", "streaming"] = "segment"
    name = "known"
    backend = Backend("cpu", "fake")
    limit_s = 30.0
    closed = False

    def warm_up(self) -> None:
        self.transcribe([REQUEST])

    def close(self) -> None:
        self.closed = True

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        return tuple(Rejected(hotword.phrase, "never") for hotword in hotwords)

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        return [SAID for _ in requests]


def test_words_are_corrected_and_nothing_else() -> None:
    line = Calibration(0.5, -0.2, whole=0.3, agreement=0.4)
    inner = Known()
    recognizer = CalibratedRecognizer(inner, line)
    first, second = recognizer.transcribe([REQUEST, REQUEST])
    known = evidence(SAID)
    assert [word.conf for word in first.words] == [line(0.9, known[0]), line(0.6, known[1]), None]
    assert first == second
    assert (first.text, first.conf, first.sure, first.others) == (SAID.text, 0.7, SAID.sure, SAID.others)
    assert recognizer.unusable([Hotword("x")])[0].reason == "never"
    assert (recognizer.name, recognizer.limit_s, recognizer.backend.name) == ("known", 30.0, "cpu")
    recognizer.close()
    assert inner.closed


def test_one_s_own_calibration_comes_before_the_shipped_one(tmp_path: Path) -> None:
    assert calibration_of(tmp_path, "nobody's") == NOTHING
    inner = Known()
    assert told(inner, tmp_path) is inner
    shipped = calibration_of(tmp_path, "moonshine-tiny-en")
    assert shipped != NOTHING
    Calibration(0.5, 0.25).save(tmp_path)
    assert calibration_of(tmp_path, "moonshine-tiny-en") == Calibration(0.5, 0.25)
    assert isinstance(told(inner, tmp_path), CalibratedRecognizer)
    (tmp_path / "confidence.json").write_text("[]")
    with pytest.raises(ModelDamaged, match=r"confidence\.json"):
        told(inner, tmp_path)


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.json")), ids=lambda file: file.name)
def test_what_is_shipped_is_sound(file: Path) -> None:
    """More confident stays more confident, agreement never speaks against a word, and nothing is extreme."""
    calibration = Calibration.read(file)
    assert set(json.loads(file.read_text())) == set(vars(calibration))
    assert 0.3 < calibration.slope < 2
    assert calibration.agreement >= 0
    assert all(abs(weight) < 3 for weight in vars(calibration).values())
