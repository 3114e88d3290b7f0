"""Times of words, brought to the source clock and to the text that is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from cosyd.types import Transcript, Word


def placed(transcript: Transcript, origin_s: float) -> Transcript:
    """With the times of its words counted from where the audio begins in the source clock."""
    if not transcript.words:
        return transcript
    words = tuple(
        replace(word, start=round(origin_s + word.start, 3), end=round(origin_s + word.end, 3))
        for word in transcript.words
    )
    return replace(transcript, words=words)


def fitted(words: Sequence[Word], text: str) -> tuple[Word, ...]:
    """One for each word of ``text``, in which promised words may stand in the place of those heard.

    What stands in the place of others shares their time evenly, and nobody knows how sure it is. None at all
    where a word has no time to share.
    """
    wanted = text.split()
    heard = [word.w for word in words]
    if heard == wanted:
        return tuple(words)
    found: list[Word] = []
    for kind, a, b, c, d in SequenceMatcher(None, heard, wanted, autojunk=False).get_opcodes():
        if kind == "equal":
            found += words[a:b]
        elif kind == "insert":
            return ()
        elif kind == "replace":
            found += _shared(wanted[c:d], words[a].start, words[b - 1].end)
    return tuple(found)


def _shared(names: Sequence[str], start: float, end: float) -> list[Word]:
    step = (end - start) / len(names)
    edges = [round(start + i * step, 3) for i in range(len(names) + 1)]
    return [Word(name, a, b) for name, a, b in zip(names, edges, edges[1:], strict=False)]
