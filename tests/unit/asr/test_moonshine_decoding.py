"""One path and several: what quick results keep of what was said, and what they decide anew."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from cosyd.asr.moonshine_decoding import QUICK_DOUBT, SAID, Decoding
from cosyd.asr.moonshine_draft import LEAST_KNOWN, NEARLY, OPEN_TOKENS, Begun
from cosyd.asr.tokenizer import EOS, Tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = Tokenizer([b"<unk>", b"<s>", b"</s>", *(f"▁{letter}".encode() for letter in LETTERS), b"x"])
FIRST, INSIDE = 3, 3 + len(LETTERS)
Tree = Mapping[str, Mapping[str, float]]


def tokens_of(text: str) -> tuple[int, ...]:
    return tuple(FIRST + LETTERS.index(letter) for letter in text)


def text_of(tokens: Sequence[int]) -> str:
    return "".join(LETTERS[token - FIRST] for token in tokens)


@dataclass
class TreeDecoder:
    """Says what its tree has after the letters so far, else that nothing follows. Its cache is what each row
    has said, so a wrong one is a wrong text."""

    tree: Tree
    memory: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    known: list[int] = field(default_factory=list)

    def begin(self, tokens: Sequence[int]) -> tuple[np.ndarray, list[tuple[int, ...]]]:
        return self._rows(tokens, 0), [tuple(tokens)]

    def resume(
        self, cache: list[tuple[int, ...]], known: int, tokens: Sequence[int]
    ) -> tuple[np.ndarray, list[tuple[int, ...]]]:
        assert [row[:known] for row in cache] == [tuple(tokens[:known])]
        self.known.append(known)
        return self._rows(tokens, known), [tuple(tokens)]

    def step(self, tokens: Sequence[int], cache: list[tuple[int, ...]]) -> np.ndarray:
        self.steps += 1
        cache[:] = [(*row, token) for row, token in zip(cache, tokens, strict=True)]
        return np.stack([self._next(row) for row in cache])

    def shorten(self, cache: list[tuple[int, ...]], tokens: int) -> None:
        cache[:] = [row[:tokens] for row in cache]

    def pick(self, cache: list[tuple[int, ...]], rows: Sequence[int]) -> None:
        cache[:] = [cache[row] for row in rows]

    def attention(self, tokens: Sequence[int], cache: list[tuple[int, ...]]) -> np.ndarray:
        raise NotImplementedError

    def _rows(self, tokens: Sequence[int], first: int) -> np.ndarray:
        return np.stack([self._next(tokens[:end]) for end in range(first, len(tokens) + 1)])

    def _next(self, tokens: Sequence[int]) -> np.ndarray:
        logits = np.full(len(VOCABULARY), -30.0, np.float32)
        following = self.tree.get(text_of(tokens), {"": 1.0})
        for letter, probability in following.items():
            logits[tokens_of(letter)[0] if letter else EOS] = math.log(probability)
        return logits


def line(text: str, end: str = "") -> dict[str, dict[str, float]]:
    """A tree that is sure of this text."""
    return {text[:i]: {letter: 1.0} for i, letter in enumerate(text)} | ({text: {end: 1.0}} if end else {})


DECODING = Decoding(VOCABULARY, "test")
UNSURE = {"": {"a": 1.0}, "a": {"b": 0.55, "c": 0.45}, "ab": {"d": 0.3, "e": 0.3, "f": 0.4}, "ac": {"g": 1.0}}


def begun(text: str, forced: int = 0) -> Begun:
    """What a quick result begins with: all words but the last stay where they are nearly as likely."""
    return Begun(tokens_of(text), forced, max(0, len(text) - 1))


def test_several_paths_find_what_one_misses() -> None:
    assert text_of(DECODING.greedy(TreeDecoder(UNSURE), Begun(()), 9).tokens) == "abf"
    said = DECODING.followed(TreeDecoder(UNSURE), Begun(()), 9)
    assert text_of(said.tokens) == "acg"
    assert said.scores == pytest.approx((0.0, math.log(0.45), 0.0), abs=1e-6)
    assert "abf" in [text_of(other) for other in said.others]


def test_the_last_word_is_decided_anew() -> None:
    assert text_of(DECODING.followed(TreeDecoder(UNSURE), begun("ab"), 9).tokens) == "acg"


def test_words_before_it_stay_where_they_are_nearly_as_likely() -> None:
    assert text_of(DECODING.followed(TreeDecoder(UNSURE), begun("abd"), 9).tokens) == "abf"
    behind = math.exp(-NEARLY - 0.1)
    unlikely = {**UNSURE, "a": {"b": behind / (1 + behind), "c": 1 / (1 + behind)}}
    assert text_of(DECODING.followed(TreeDecoder(unlikely), begun("abd"), 9).tokens) == "acg"


def test_what_is_promised_stays_whatever_it_is() -> None:
    assert text_of(DECODING.followed(TreeDecoder(UNSURE), begun("az", forced=2), 9).tokens) == "az"


def test_what_follows_a_promise_begins_a_word() -> None:
    class Inside(TreeDecoder):
        def _next(self, tokens: Sequence[int]) -> np.ndarray:
            logits = super()._next(tokens)
            logits[INSIDE] = 9.0
            return logits

    said = DECODING.followed(Inside({"a": {"b": 1.0}}), begun("a", forced=1), 2)
    assert said.tokens[1] != INSIDE


@pytest.mark.parametrize(("behind", "steps"), [(QUICK_DOUBT + 0.1, 0), (QUICK_DOUBT - 0.1, 1)])
def test_a_last_word_without_doubt_costs_no_step(behind: float, steps: int) -> None:
    tree = {"": {"a": 1.0}, "a": {"b": 1.0, "c": math.exp(-behind)}}
    decoder = TreeDecoder(tree)
    assert text_of(DECODING.followed(decoder, begun("ab"), 9).tokens) == "ab"
    assert decoder.steps == steps


def test_no_result_is_longer_than_allowed() -> None:
    assert text_of(DECODING.followed(TreeDecoder(line("abcdef")), Begun(()), 3).tokens) == "abc"


def test_the_next_result_goes_on_from_what_is_known() -> None:
    """The same as without a memory, but for the tokens that are not run again."""
    text = LETTERS[: OPEN_TOKENS + LEAST_KNOWN + 4]
    tree = line(text[:-1]) | {text[:-1]: {text[-1]: 0.6, "z": 0.4}}
    decoder = TreeDecoder(tree)
    first = DECODING.followed(decoder, begun(text[:-3]), 99)
    assert text_of(first.tokens) == text
    afresh = DECODING.followed(TreeDecoder(tree), begun(text), 99)
    again = DECODING.followed(decoder, begun(text), 99)
    assert (again.tokens, again.others) == (afresh.tokens, afresh.others)
    assert again.scores == pytest.approx(afresh.scores)
    assert decoder.known == [len(text) - OPEN_TOKENS]


def test_memory_holds_what_all_paths_have_in_common() -> None:
    decoder = TreeDecoder(UNSURE)
    DECODING.followed(decoder, begun("ab"), 9)
    said = decoder.memory[SAID]
    assert text_of(said.tokens) == "a"
    assert [row[:1] for row in said.cache] == [tokens_of("a")]
