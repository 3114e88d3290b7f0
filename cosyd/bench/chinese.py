"""Mandarin made comparable before characters are counted.

Both sides: full-width forms as plain ones (NFKC); numbers, dates and percentages as they are read, by the
grammars of WeTextProcessing; traditional characters as simplified ones, by OpenCC; then only letters and
digits of any script are left, in lower case, without blanks. What is read two ways stays two things
(二 and 两), except the one of telephone numbers (幺), which transcripts write 一.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

_ONE = str.maketrans("幺", "一")


def bare(text: str) -> str:
    """Without punctuation, blanks and case alone: numbers and script as they are."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in plain if character.isalnum())


def normalise(text: str) -> str:
    """``下午3點，去臺北。`` -> ``下午三点去台北``."""
    read = _reader()(unicodedata.normalize("NFKC", text))
    return bare(_simplifier()(read)).translate(_ONE)


def cer(references: Sequence[str], texts: Sequence[str], prepare: Callable[[str], str] = normalise) -> float:
    """Character errors over all texts, in percent of the characters of the references."""
    import jiwer

    return 100 * float(jiwer.cer([prepare(text) for text in references], [prepare(text) for text in texts]))


@lru_cache(maxsize=1)
def _reader() -> Callable[[str], str]:
    from wetext import Normalizer

    read: Callable[[str], str] = Normalizer(lang="zh", operator="tn").normalize
    return read


@lru_cache(maxsize=1)
def _simplifier() -> Callable[[str], str]:
    import opencc

    simplify: Callable[[str], str] = opencc.OpenCC("t2s").convert
    return simplify
