"""An n-gram language model of words (KenLM's ARPA or binary files) beside a model of tokens.

A word is known, and is scored, when the next one begins or the utterance ends; within it nothing is said.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cosyd.asr.streaming.tokens import Tokens
from cosyd.errors import ModelDamaged, ModelMissing

LN_10 = math.log(10)  # KenLM counts in tens
CACHED_WORDS = 50_000  # spellings looked up; a language's everyday words, and some 5 MB
_END = "</s>"


class WordModel(Protocol):
    """``kenlm.Model``: ``BaseScore(before, word, after) -> log10 probability`` fills in ``after``."""

    def BeginSentenceWrite(self, state: Any, /) -> None: ...

    def BaseScore(self, before: Any, word: str, after: Any, /) -> float: ...

    def __contains__(self, word: str, /) -> bool: ...


class NgramState(NamedTuple):
    """``before``: what the model remembers of the words so far; ``word``: tokens of the one that is open."""

    before: Any
    word: tuple[int, ...] = ()


class NgramLm:
    """A ``LanguageModel``. Not for several threads at once."""

    def __init__(
        self,
        model: WordModel,
        new_state: type[Any],
        tokens: Tokens,
        *,
        weight: float = 0.3,
        word_bonus: float = 0.5,
        unknown: float = -10.0,
    ) -> None:
        """``weight``: of the model's log-probabilities. ``word_bonus``: nats for each word, against the
        preference for few words. ``unknown``: nats for a word that the model lacks, before weighting, so that
        names and hotwords remain possible."""
        self._model = model
        self._new_state = new_state
        self._tokens = tokens
        self._weight = weight
        self._word_bonus = word_bonus
        self._unknown = unknown
        self._words: dict[tuple[int, ...], str] = {}

    @classmethod
    def load(cls, file: Path, tokens: Tokens, **settings: float) -> NgramLm:
        """Raises ModelMissing without the file or the library, ModelDamaged for another kind of file."""
        if not file.is_file():
            raise ModelMissing(f"{file}: no such language model")
        try:
            import kenlm
        except ImportError as error:
            raise ModelMissing(f"{file}: language models need KenLM; run: pip install cosyd[lm]") from error
        try:
            model = kenlm.Model(str(file))
        except (OSError, RuntimeError) as error:
            raise ModelDamaged(f"{file}: KenLM cannot read it: {error}") from error
        return cls(model, kenlm.State, tokens, **settings)

    def begin(self) -> NgramState:
        state = self._new_state()
        self._model.BeginSentenceWrite(state)
        return NgramState(state)

    def step(self, state: NgramState, token: int) -> tuple[NgramState, float]:
        if not state.word or not self._tokens.starts_word(token):
            return NgramState(state.before, (*state.word, token)), 0.0
        before, score = self._close(state)
        return NgramState(before, (token,)), score

    def finish(self, state: NgramState) -> float:
        before, score = self._close(state) if state.word else (state.before, 0.0)
        return score + self._weight * LN_10 * self._model.BaseScore(before, _END, self._new_state())

    def _close(self, state: NgramState) -> tuple[Any, float]:
        """The open word is complete: (what the model remembers now, score)."""
        word, after = self._known(state.word), self._new_state()
        if not word:
            return state.before, 0.0
        score = LN_10 * self._model.BaseScore(state.before, word, after)
        if word not in self._model:
            score = self._unknown
        return after, self._weight * score + self._word_bonus

    def _known(self, tokens: tuple[int, ...]) -> str:
        """The word, in the case that the model knows it in."""
        word = self._words.get(tokens)
        if word is None:
            text = self._tokens.text(tokens)
            cases = (text, text.lower(), text.upper(), text.capitalize())
            word = next((case for case in cases if case in self._model), text)
            if len(self._words) >= CACHED_WORDS:
                self._words.clear()
            self._words[tokens] = word
        return word
