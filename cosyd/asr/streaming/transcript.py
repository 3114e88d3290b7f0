"""From what a search found to text: words with times and confidences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cosyd.asr.decoders.hypothesis import Hypothesis
from cosyd.asr.streaming.tokens import Tokens
from cosyd.types import Transcript, Word

_LEAST = math.log(1e-6)


@dataclass
class _Group:
    """The tokens of one word."""

    tokens: list[int]
    frames: list[int]
    log_probs: list[float]


def transcript_of(hypothesis: Hypothesis, tokens: Tokens, frame_s: float, start_s: float = 0.0) -> Transcript:
    """``frame_s``: seconds of one frame; ``start_s``: time of frame 0 in the clock of the words.

    A word begins with its first token and ends one frame after its last. Confidences are the geometric mean
    of the probabilities of a word's, or of all, tokens.
    """
    groups = _words(hypothesis, tokens)
    words = tuple(word for group in groups if (word := _word(group, tokens, frame_s, start_s)).w)
    sure = tuple(math.exp(min(group.log_probs)) for group in groups if tokens.text(group.tokens))
    return Transcript(
        text=tokens.text(hypothesis.tokens),
        tokens=hypothesis.tokens,
        conf=confidence(hypothesis.log_probs),
        words=words,
        sure=sure if tokens.spaced else (),
    )


def stable_text(readings: Sequence[tuple[int, ...]], tokens: Tokens) -> str:
    """The words that no later result can change: whole, and the same in every reading that is still followed.

    A search only ever goes on from the readings that it has, so what they share stays.
    """
    first = readings[0]
    shared = len(first)
    for other in readings[1:]:
        differs = (i for i, (a, b) in enumerate(zip(first, other, strict=False)) if a != b)
        shared = min(shared, len(other), next(differs, shared))
    while shared > 0 and not (shared < len(first) and tokens.starts_word(first[shared])):
        shared -= 1  # the word may go on
    return tokens.text(first[:shared])


def _words(hypothesis: Hypothesis, tokens: Tokens) -> list[_Group]:
    groups: list[_Group] = []
    found = zip(hypothesis.tokens, hypothesis.frames, hypothesis.log_probs, strict=True)
    for token, frame, log_prob in found:
        if not groups or tokens.starts_word(token):
            groups.append(_Group([], [], []))
        groups[-1].tokens.append(token)
        groups[-1].frames.append(frame)
        groups[-1].log_probs.append(min(0.0, log_prob))
    return groups


def _word(group: _Group, tokens: Tokens, frame_s: float, start_s: float) -> Word:
    start = start_s + group.frames[0] * frame_s
    end = start_s + (group.frames[-1] + 1) * frame_s
    return Word(tokens.text(group.tokens), round(start, 3), round(end, 3), confidence(group.log_probs))


def confidence(log_probs: Sequence[float]) -> float | None:
    """Geometric mean of the probabilities; each counts at least one in a million, so that one does not make
    all zero."""
    if not log_probs:
        return None
    return math.exp(sum(min(0.0, max(p, _LEAST)) for p in log_probs) / len(log_probs))
