"""What somebody saw who watched an utterance grow: when each word came, and what was taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cosyd.types import Word


@dataclass
class Shown:
    """Texts of one utterance in the order in which they were on the screen, the final last.

    ``words``: of the final, with the times at which they were spoken.
    """

    texts: list[tuple[float, str]] = field(default_factory=list)
    words: tuple[Word, ...] = ()

    def add(self, when: float, text: str) -> None:
        self.texts.append((when, text))

    def delays(self) -> list[float]:
        """For each word of the final: seconds from its end to the first text that it was in and stayed in."""
        final = keys(self.texts[-1][1])
        came: list[float | None] = [None] * len(final)
        for when, text in self.texts:
            there = matched(final, keys(text))
            came = [(when if at is None else at) if i in there else None for i, at in enumerate(came)]
        if len(self.words) != len(final):
            return []
        return [
            at - word.end
            for at, word in zip(came, self.words, strict=True)
            if at is not None and word.conf is not None
        ]

    def changes(self) -> tuple[int, int]:
        """Words that were shown, and how many of them did not stay."""
        shown = gone = 0
        before: list[str] = []
        for _, text in self.texts:
            after = keys(text)
            kept = len(matched(before, after))
            shown += len(after) - kept
            gone += len(before) - kept
            before = after
        return shown, gone


def keys(text: str) -> list[str]:
    """Words without case and marks: a comma that comes later is no other word."""
    return ["".join(c for c in word.lower() if c.isalnum()) for word in text.split()]


def matched(a: Sequence[str], b: Sequence[str]) -> set[int]:
    """Which words of ``a`` are in ``b``, by the alignment of fewest edits."""
    return set(pairs(a, b))


def pairs(a: Sequence[str], b: Sequence[str]) -> dict[int, int]:
    """The words of ``a`` that are in ``b``, and where there, by the alignment of fewest edits."""
    from rapidfuzz.distance import Levenshtein

    found: dict[int, int] = {}
    for part in Levenshtein.opcodes(a, b):
        if part.tag == "equal":
            found |= zip(
                range(part.src_start, part.src_end), range(part.dest_start, part.dest_end), strict=True
            )
    return found
