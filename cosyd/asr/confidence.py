"""Confidences that mean what they say: of words with 0.8, eight in ten are right.

A network's own probabilities are too high, or too low, by as much as it was trained too long or too little.
The cure is Platt's (1999): a straight line through their log-odds, fitted on speech whose text is known. How
far off probabilities are is the expected calibration error (Naeini et al. 2015): the mean distance between
confidence and share of right words over equally populated bins, each weighted by its size.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import ModelDamaged
from cosyd.types import Transcript

FILE = "confidence.json"  # in a model's folder
_CERTAIN = 1e-4  # log-odds end here: a single word should not weigh like thousands
_PRIOR = 1e-3  # weight of the belief that nothing needs correction; keeps the line finite on few words
_ROUNDS = 50

Doubles = NDArray[np.float64]


def _log_odds(confidences: Doubles) -> Doubles:
    inside = np.clip(confidences, _CERTAIN, 1 - _CERTAIN)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x)))


@dataclass(frozen=True)
class Calibration:
    """Log-odds of being right = ``slope`` * log-odds of the confidence + ``offset``; immutable."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, confidence: float) -> float:
        """0..1 to 0..1, never falling as ``confidence`` rises."""
        if self == NOTHING:
            return confidence
        return float(_sigmoid(self.slope * _log_odds(np.asarray(confidence, np.float64)) + self.offset))

    @classmethod
    def fit(cls, confidences: Sequence[float], right: Sequence[bool]) -> Calibration:
        """The likeliest line, by Newton's method; that of no words changes nothing."""
        x = _log_odds(np.asarray(confidences, np.float64))
        y = np.asarray(right, np.float64)
        features = np.stack([x, np.ones_like(x)])
        start = line = np.array([1.0, 0.0])
        for _ in range(_ROUNDS):
            p = _sigmoid(line @ features)
            slope = features @ (p - y) + _PRIOR * (line - start)
            curve = (features * (p * (1 - p))) @ features.T + _PRIOR * np.eye(2)
            step = np.linalg.solve(curve, slope)
            line = line - step
            if np.abs(step).max() < 1e-9:
                break
        return cls(max(0.0, float(line[0])), float(line[1]))

    @classmethod
    def of(cls, folder: Path) -> Calibration:
        """What ``confidence.json`` in a model's folder says; without one nothing is changed. Raises
        ModelDamaged."""
        file = folder / FILE
        try:
            found = json.loads(file.read_text("utf-8"))
            return cls(float(found["slope"]), float(found["offset"]))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelDamaged(f"{file}: needs the numbers slope and offset: {error!r}") from error

    def save(self, folder: Path) -> Path:
        file = folder / FILE
        file.write_text(json.dumps(asdict(self)) + "\n", "utf-8")
        return file


NOTHING = Calibration()
"""What changes nothing."""


def calibrated(transcript: Transcript, calibration: Calibration) -> Transcript:
    """With confidences that mean what they say, of words and of the whole; ``sure`` stays the model's own."""
    if calibration == NOTHING:
        return transcript
    words = tuple(
        word if word.conf is None else replace(word, conf=calibration(word.conf)) for word in transcript.words
    )
    conf = None if transcript.conf is None else calibration(transcript.conf)
    return replace(transcript, words=words, conf=conf)


@dataclass(frozen=True)
class Bin:
    """``count`` words, their mean confidence and the share of them that is right."""

    count: int
    confidence: float
    right: float


def reliability(confidences: Sequence[float], right: Sequence[bool], bins: int = 10) -> list[Bin]:
    """The reliability diagram: equally populated bins, from low confidence to high."""
    order = np.argsort(confidences, kind="stable")
    x, y = np.asarray(confidences, np.float64)[order], np.asarray(right, np.float64)[order]
    parts = zip(np.array_split(x, bins), np.array_split(y, bins), strict=True)
    return [Bin(len(a), float(a.mean()), float(b.mean())) for a, b in parts if len(a)]


def calibration_error(confidences: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Expected calibration error, 0..1; 0 of no words."""
    found = reliability(confidences, right, bins)
    count = sum(each.count for each in found)
    return sum(each.count * abs(each.confidence - each.right) for each in found) / max(1, count)
