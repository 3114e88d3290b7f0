"""Numbers, times, dates and money in figures (inverse text normalisation), by WeTextProcessing's grammars.

The grammars want small letters without punctuation and see no sentence limits, so each stretch between
punctuation marks is rewritten by itself, and of the result only the words that differ are taken: all others
keep the case that they have.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Literal

from cosyd.errors import ModelMissing

Language = Literal["en", "zh", "ja"]

_STRETCHES = re.compile(r"([,.;:?!…，。；：？！、]+(?=\s|$)|[，。；：？！、]+)")
_COUNT = r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|and)"
_A_HUNDRED = re.compile(rf"\ban? (?=(?:hundred|thousand|million|billion) {_COUNT}\b)")
_SMALL_ORDINAL = re.compile(r"[1-9](?:st|nd|rd|th)")  # "the first time" is written so
_HOUR = re.compile(r"(?<![\d:.])0(\d:\d\d)(?!:?\d)")


class Numbers:
    """``rewrite`` is the grammar: a stretch in small letters to the same with figures."""

    def __init__(self, rewrite: Callable[[str], str], language: Language = "en") -> None:
        self._rewrite = rewrite
        self._language = language

    @classmethod
    def load(cls, language: Language) -> Numbers:
        """Takes some seconds and 30 MB. Raises ModelMissing without the library."""
        try:
            from wetext import Normalizer
        except ImportError as error:
            raise ModelMissing("text.numbers needs wetext; run: pip install cosyd[text]") from error
        return cls(Normalizer(lang=language, operator="itn").normalize, language)

    def __call__(self, text: str) -> str:
        return "".join(
            part if _STRETCHES.fullmatch(part) else self._stretch(part) for part in _STRETCHES.split(text)
        )

    def _stretch(self, text: str) -> str:
        said = text.strip()
        if not said:
            return text
        written = self._spoken_english(said) if self._language == "en" else self._rewrite(said)
        at = text.index(said)
        return text[:at] + written + text[at + len(said) :]

    def _spoken_english(self, said: str) -> str:
        before = said.split()
        after = _tidy(self._rewrite(_A_HUNDRED.sub("one ", said.lower()))).split()
        kept: list[str] = []
        matcher = SequenceMatcher(a=[word.lower() for word in before], b=after, autojunk=False)
        for kind, a, b, c, d in matcher.get_opcodes():
            same = kind == "equal" or (d - c == b - a == 1 and _SMALL_ORDINAL.fullmatch(after[c]))
            kept += before[a:b] if same else after[c:d]
        return " ".join(kept)


def _tidy(text: str) -> str:
    """``20 % off at 07:30`` -> ``20% off at 7:30``."""
    return _HOUR.sub(r"\1", text.replace(" %", "%"))
