"""Words that were recognised, each with what is known of it and whether it is right."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cosyd.asr.confidence import Calibration, evidence
from cosyd.bench.text import normalise
from cosyd.types import Transcript, Word


@dataclass
class Judged:
    """Of each word: confidence, ``evidence``, whether it is right."""

    confidences: list[float] = field(default_factory=list)
    evidence: list[tuple[float, ...]] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)

    def add(self, transcript: Transcript, reference: str) -> None:
        known = evidence(transcript)
        for i, right in judge_words(transcript.words, reference):
            self.confidences.append(transcript.words[i].conf or 0.0)
            self.evidence.append(known[i])
            self.right.append(right)

    def extend(self, other: Judged) -> None:
        self.confidences += other.confidences
        self.evidence += other.evidence
        self.right += other.right

    def fit(self) -> Calibration:
        return Calibration.fit(self.confidences, self.right, self.evidence)

    def told(self, calibration: Calibration) -> list[float]:
        """The confidences after calibration."""
        return [calibration(c, known) for c, known in zip(self.confidences, self.evidence, strict=True)]


def joined(parts: Iterable[Judged]) -> Judged:
    whole = Judged()
    for part in parts:
        whole.extend(part)
    return whole


def held_out(parts: Sequence[Judged], folds: int) -> tuple[list[float], list[bool]]:
    """What is told of each word by a calibration of the other folds' recordings, and whether it is right.

    ``parts``: the words of each recording. Whole recordings are left out at a time: words of one are alike.
    """
    told: list[float] = []
    right: list[bool] = []
    for fold in range(folds):
        rest = joined(part for i, part in enumerate(parts) if i % folds != fold)
        apart = joined(parts[fold::folds])
        told += apart.told(rest.fit())
        right += apart.right
    return told, right


def judge_words(words: Iterable[Word], reference: str) -> list[tuple[int, bool]]:
    """(position, whether it is right) of each word that has a confidence and is spoken.

    Right is what the alignment that needs the fewest edits leaves as it is.
    """
    from rapidfuzz.distance import Levenshtein

    comparable = _comparable(reference)
    spoken = [(word.conf, comparable(word.w)) for word in words]
    parts = [(part, i) for i, (_, said) in enumerate(spoken) for part in said]
    wrong: set[int] = set()
    for edit in Levenshtein.opcodes([part for part, _ in parts], comparable(reference)):
        if edit.tag in ("replace", "delete"):
            wrong |= {i for _, i in parts[edit.src_start : edit.src_end]}
    return [(i, i not in wrong) for i, (conf, said) in enumerate(spoken) if said and conf is not None]


def _comparable(reference: str) -> Callable[[str], list[str]]:
    """How this text and what is heard of it are made comparable: Latin letters as for word errors; other
    scripts in lower case without signs, each Chinese or Japanese character for itself."""
    letters = (character for character in reference if character.isalpha())
    latin = all(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    return (lambda text: normalise(text).split()) if latin else _pieces


def _pieces(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(map(_piece, plain)).split()


def _piece(character: str) -> str:
    if "\u3040" <= character <= "\u9fff":
        return f" {character} "
    return character if character.isalnum() or unicodedata.category(character)[0] == "M" else " "
