"""Times of words, brought to the source clock and to the text that is published."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from cosyd.types import Transcript, Word

# Scripts without blanks between words (kana, Han): in a list of words each of their characters is one, with
# the punctuation after it.
_UNSPACED = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNIT = re.compile(rf"[{_UNSPACED}][^\w\s]*|[^\s{_UNSPACED}]+")


def units(text: str) -> list[str]:
    """The words of a text: ``说 hello, 好。`` -> ``说``, ``hello,``, ``好。``."""
    return _UNIT.findall(text)


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
    """One for each of the ``units`` of ``text``, in which promised words may stand in place of those heard.

    What stands in the place of others shares their time evenly, and nobody knows how sure it is. None at all
    where a word has no time to share.
    """
    heard = [word.w for word in words]
    wanted = units(text)
    if heard in (wanted, text.split()):
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
