"""Lists of hotwords made into biases for one vocabulary, and which phrases cannot be."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cached_property

from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.moonshine_bias import Bias, Spelling
from cosyd.asr.tokenizer import Tokenizer

# Nats a token. Of 388 phrases in orders (66 of train/synthetic in four noises at 5 dB) 238 are found without,
# 319 with 3, 325 with 3.5, 328 with 4, 336 with 5; 21, 23, 22 and 25 % of the word errors are gone.
# Made up in them and in 60 clips of LibriSpeech train-clean-100, clear and in three of the noises: 1, 5, 10
# and 17; phrases made up are worse than missed.
DEFAULT_SCORE = 3.5
LISTS_KEPT = 8  # of a source each, and the one before a change


class Favourites:
    """Biases by list; the vocabulary is spelled out when the first list comes."""

    def __init__(self, vocabulary: Tokenizer, name: str) -> None:
        """``name``: of the model, for messages."""
        self._vocabulary = vocabulary
        self._name = name
        self._biases: dict[tuple[Hotword, ...], Bias | None] = {}

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self._vocabulary)

    def bias(self, hotwords: tuple[Hotword, ...]) -> Bias | None:
        """None: nothing to favour."""
        if not hotwords:
            return None
        if hotwords not in self._biases:
            while len(self._biases) >= LISTS_KEPT:
                del self._biases[next(iter(self._biases))]
            self._biases[hotwords] = self._compile(hotwords)
        return self._biases[hotwords]

    def _compile(self, hotwords: Sequence[Hotword]) -> Bias | None:
        usable = [hotword for hotword in hotwords if self._why_not(hotword) is None]
        phrases = [(hotword.phrase, self._worth(hotword)) for hotword in usable]
        return Bias(self._spelling, phrases) if phrases else None

    def _worth(self, hotword: Hotword) -> float:
        score = DEFAULT_SCORE if hotword.score is None else hotword.score
        return score * len(self._vocabulary.encode(hotword.phrase))

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        """With the reasons. Quick, for it is asked on the thread that reads audio."""
        reasons = ((hotword, self._why_not(hotword)) for hotword in hotwords)
        return tuple(Rejected(hotword.phrase, why) for hotword, why in reasons if why is not None)

    def _why_not(self, hotword: Hotword) -> str | None:
        letters = [c for c in hotword.phrase if c.isalnum()]
        if len(letters) < 2:
            return "a single letter is found everywhere"
        foreign = [c for c in letters if not self._writes(c)]
        return f"{self._name} never writes {foreign[0]!r}" if foreign else None

    def _writes(self, letter: str) -> bool:
        """The vocabulary is that of a model of many languages; one of English writes Latin letters only."""
        latin = letter.isdecimal() or unicodedata.name(letter, "").startswith("LATIN ")
        return self._vocabulary.writes(letter) and (latin or not self._name.endswith("-en"))
