"""Confidences that mean what they say: of words with 0.8, eight in ten are right.

A network's own probabilities are too high, or too low, by as much as it was trained too long or too little.
The cure is Platt's (1999): a straight line through their log-odds, fitted on speech whose text is known. What
else is known of a word helps to tell right ones from wrong ones and has a weight in the same sum (logistic
regression): ``EVIDENCE``. How far off probabilities are is the expected calibration error (Naeini et al.
2015): the mean distance between confidence and share of right words over equally populated bins, each
weighted by its size. How much they tell is the normalised cross entropy (Siu, Gish & Richardson 1997): 1 for
a confidence that is always 0 or 1 and always right, 0 for one that knows the share of right words only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import ModelDamaged
from cosyd.types import Transcript, Word

FILE = "confidence.json"  # in a model's folder
EVIDENCE = ("whole", "beside", "letters", "agreement")  # beside the word's own log-odds; see ``evidence``
_CERTAIN = 1e-4  # log-odds end here: a single word should not weigh like thousands
_PRIOR = 1e-3  # weight of the belief that nothing needs correction; keeps the sum finite on few words
_ROUNDS = 50
_SMALLEST = 1e-9  # step, of log-odds

Doubles = NDArray[np.float64]


def _log_odds(confidences: Doubles) -> Doubles:
    inside = np.clip(confidences, _CERTAIN, 1 - _CERTAIN)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x)))


def _unlikeliness(weights: Doubles, features: Doubles, right: Doubles, start: Doubles) -> float:
    """What the fit makes least: minus the logarithm of the words' probability, and the prior."""
    odds = weights @ features
    return float(np.sum(np.logaddexp(0, odds) - right * odds) + _PRIOR / 2 * np.sum((weights - start) ** 2))


@dataclass(frozen=True)
class Calibration:
    """Log-odds of being right = ``slope`` * log-odds of the confidence + ``offset``, and each evidence times
    its weight; immutable."""

    slope: float = 1.0
    offset: float = 0.0
    whole: float = 0.0
    beside: float = 0.0
    letters: float = 0.0
    agreement: float = 0.0

    def __call__(self, confidence: float, evidence: Sequence[float] = (0.0,) * len(EVIDENCE)) -> float:
        """0..1 to 0..1, never falling as ``confidence`` rises."""
        if self == NOTHING:
            return confidence
        more = sum(getattr(self, name) * value for name, value in zip(EVIDENCE, evidence, strict=True))
        return float(
            _sigmoid(self.slope * _log_odds(np.asarray(confidence, np.float64)) + self.offset + more)
        )

    @classmethod
    def fit(
        cls,
        confidences: Sequence[float],
        right: Sequence[bool],
        evidence: Sequence[Sequence[float]] | None = None,
    ) -> Calibration:
        """The likeliest sum, by Newton's method; that of no words changes nothing.

        ``evidence``: of each word, in the order of ``EVIDENCE``; None: the confidence alone tells.
        """
        x = _log_odds(np.asarray(confidences, np.float64))
        y = np.asarray(right, np.float64)
        more = np.zeros((0, x.size)) if evidence is None else np.asarray(evidence, np.float64).T
        features = np.stack([x, np.ones_like(x), *more])
        start = weights = np.array([1.0, *[0.0] * (len(features) - 1)])
        for _ in range(_ROUNDS):
            p = _sigmoid(weights @ features)
            slope = features @ (p - y) + _PRIOR * (weights - start)
            curve = (features * (p * (1 - p))) @ features.T + _PRIOR * np.eye(len(features))
            step = np.linalg.solve(curve, slope)
            before = _unlikeliness(weights, features, y, start)
            # Where most confidences are far off, a whole step goes too far and the next one farther.
            while (
                np.abs(step).max() >= _SMALLEST and _unlikeliness(weights - step, features, y, start) > before
            ):
                step = step / 2
            weights = weights - step
            if np.abs(step).max() < _SMALLEST:
                break
        first, *others = (float(weight) for weight in weights)
        return cls(max(0.0, first), *others)

    @classmethod
    def of(cls, folder: Path) -> Calibration:
        """What ``confidence.json`` in a model's folder says; without one nothing is changed. Raises
        ModelDamaged."""
        file = folder / FILE
        return cls.read(file) if file.is_file() else cls()

    @classmethod
    def read(cls, file: Path) -> Calibration:
        """Slope and offset; an evidence that is not named has no weight. Raises ModelDamaged."""
        try:
            found = json.loads(file.read_text("utf-8"))
            weights = {name: float(found[name]) for name in EVIDENCE if name in found}
            return cls(float(found["slope"]), float(found["offset"]), **weights)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelDamaged(f"{file}: needs the numbers slope and offset: {error!r}") from error

    def save(self, folder: Path, name: str = FILE) -> Path:
        file = folder / name
        weights = {name: round(weight, 4) for name, weight in asdict(self).items()}
        file.write_text(json.dumps(weights) + "\n", "utf-8")
        return file


NOTHING = Calibration()
"""What changes nothing."""


def evidence(transcript: Transcript) -> list[tuple[float, ...]]:
    """What is known of each word beside its own confidence, in the order of ``EVIDENCE``:

    mean log-odds of all words; the lower log-odds of its neighbours; natural logarithm of its number of
    letters; the share of the other readings that have it too (1 where there are none).
    """
    odds = [float(_log_odds(np.asarray(word.conf or 0.0, np.float64))) for word in transcript.words]
    whole = sum(odds) / max(1, len(odds))
    agreed = _agreement(transcript)
    found: list[tuple[float, ...]] = []
    for i, word in enumerate(transcript.words):
        beside = min([*odds[max(0, i - 1) : i], *odds[i + 1 : i + 2]], default=odds[i])
        found.append((whole, beside, float(np.log(max(1, len(_key(word.w))))), agreed[i]))
    return found


def _agreement(transcript: Transcript) -> list[float]:
    keys = [_key(word.w) for word in transcript.words]
    counts = [0] * len(keys)
    for reading in transcript.others:
        matcher = SequenceMatcher(None, keys, [_key(word) for word in reading.split()], autojunk=False)
        for block in matcher.get_matching_blocks():
            for i in range(block.a, block.a + block.size):
                counts[i] += 1
    return [count / len(transcript.others) if transcript.others else 1.0 for count in counts]


def _key(word: str) -> str:
    return "".join(c for c in word.casefold() if c.isalnum())


def calibrated(transcript: Transcript, calibration: Calibration) -> Transcript:
    """With confidences that mean what they say, of words and of the whole; ``sure`` stays the model's own."""
    if calibration == NOTHING:
        return transcript
    words = calibrated_words(transcript, calibration)
    conf = None if transcript.conf is None else calibration(transcript.conf)
    return replace(transcript, words=words, conf=expected(words, conf))


def calibrated_words(transcript: Transcript, calibration: Calibration) -> tuple[Word, ...]:
    """The words; those without a confidence stay without."""
    return tuple(
        word if word.conf is None else replace(word, conf=calibration(word.conf, known))
        for word, known in zip(transcript.words, evidence(transcript), strict=True)
    )


def expected(words: Sequence[Word], otherwise: float | None) -> float | None:
    """The share of these words that is likely to be right; ``otherwise`` where none has a confidence."""
    known = [word.conf for word in words if word.conf is not None]
    return sum(known) / len(known) if known else otherwise


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


def information(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """Normalised cross entropy, at most 1, below 0 where it misleads; 0 where all words are alike."""
    x = np.clip(np.asarray(confidences, np.float64), _CERTAIN, 1 - _CERTAIN)
    y = np.asarray(right, np.float64)
    share = float(y.mean()) if y.size else 0.0
    if not 0 < share < 1:
        return 0.0
    most = -(share * np.log(share) + (1 - share) * np.log1p(-share))
    return float(1 + np.mean(y * np.log(x) + (1 - y) * np.log1p(-x)) / most)
