"""A recogniser whose words carry confidences that mean what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from cosyd.asr.confidence import FILE, NOTHING, Calibration, calibrated_words
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.types import Backend, Transcript

SHIPPED = Path(__file__).parent / "calibrations"  # what we have fitted, NAME.json


class CalibratedRecognizer:
    """A SegmentRecognizer around another, which it owns.

    Only words change: the confidence of the whole, and what is ``sure``, stay the model's own, for it is with
    them that results are doubted and compared.
    """

    family: Literal["segment", "streaming"] = "segment"

    def __init__(self, recognizer: SegmentRecognizer, calibration: Calibration) -> None:
        self._recognizer = recognizer
        self._calibration = calibration

    @property
    def name(self) -> str:
        return self._recognizer.name

    @property
    def backend(self) -> Backend:
        return self._recognizer.backend

    @property
    def limit_s(self) -> float:
        return self._recognizer.limit_s

    def warm_up(self) -> None:
        self._recognizer.warm_up()

    def close(self) -> None:
        self._recognizer.close()

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        return self._recognizer.unusable(hotwords)

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        found = self._recognizer.transcribe(requests)
        return [replace(each, words=calibrated_words(each, self._calibration)) for each in found]


def told(recognizer: SegmentRecognizer, folder: Path) -> SegmentRecognizer:
    """The recogniser with its model's calibration, where there is one. Raises ModelDamaged."""
    calibration = calibration_of(folder, recognizer.name)
    return recognizer if calibration == NOTHING else CalibratedRecognizer(recognizer, calibration)


def calibration_of(folder: Path, name: str) -> Calibration:
    """One's own, ``confidence.json`` in the model's folder; else the one shipped for a model of this name;
    else one that changes nothing. Raises ModelDamaged."""
    shipped = SHIPPED / f"{name}.json"
    if (folder / FILE).is_file() or not shipped.is_file():
        return Calibration.of(folder)
    return Calibration.read(shipped)
