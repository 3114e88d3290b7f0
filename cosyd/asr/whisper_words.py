"""Which tokens of a transcript each word is made of, when it was spoken, and how sure of it Whisper is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from cosyd.asr.whisper_network import Alignment
from cosyd.types import Word


class Span(NamedTuple):
    """The first and the last token of a stretch."""

    first: int
    last: int


def spans_of(pieces: Sequence[bytes], parts: Sequence[str]) -> list[Span]:
    """The tokens that the bytes of each part of a text are in, which two characters may share; none at all
    where a part is not found. ``pieces``: the bytes of each token."""
    ends, content = list(accumulate(map(len, pieces))), b"".join(pieces)
    spans, at = [], 0
    for part in (part.encode() for part in parts):
        at = content.find(part, at)
        if at < 0:
            return []
        spans.append(Span(bisect_right(ends, at), bisect_right(ends, at + len(part) - 1)))
        at += len(part)
    return spans


def least_of(aligned: Alignment, span: Span) -> float:
    """The least probability, 0..1, among its tokens."""
    return float(aligned.probs[span.first : span.last + 1].min())


def words_of(pieces: Sequence[bytes], names: Sequence[str], aligned: Alignment) -> tuple[Word, ...]:
    """Words of these names, in their order, with times in seconds from the beginning of the audio."""
    return tuple(
        Word(
            name,
            round(float(aligned.times_s[span.first]), 3),
            round(float(max(aligned.times_s[span.first], aligned.times_s[span.last + 1])), 3),
            least_of(aligned, span),
        )
        for name, span in zip(names, spans_of(pieces, names), strict=False)
    )
