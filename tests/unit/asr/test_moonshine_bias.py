"""What texts are worth: the automaton over letters against counting phrases in the finished text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.asr.moonshine_bias import Bias, Spelling
from cosyd.asr.tokenizer import EOS, Tokenizer

PIECES = [
    "▁",
    "▁a",
    "▁b",
    "▁ab",
    "▁A",
    "a",
    "b",
    "ab",
    "ba",
    "B",
    ",",
    ".",
    "-",
    "'",
    "▁a▁b",
    "a-b",
    "ü",
    "▁Ü",
]
VOCABULARY = Tokenizer(
    [b"<unk>", b"<s>", b"</s>", *(bytes([i]) for i in range(256)), *(piece.encode() for piece in PIECES)]
)
SPELLING = Spelling(VOCABULARY)
FIRST = 3 + 256
TOKENS = st.lists(st.integers(FIRST, FIRST + len(PIECES) - 1), max_size=12)
PHRASES = st.lists(
    st.lists(st.sampled_from(["a", "b", "ab", "ba", "abab", "ü"]), min_size=1, max_size=3).map(" ".join),
    min_size=1,
    max_size=4,
    unique=True,
)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def worth(tokens: list[int], phrases: dict[str, float]) -> float:
    """By definition: each phrase as often as its words stand in the text one after the other."""
    said = words(b"".join(VOCABULARY.piece(token) for token in tokens).decode().replace("▁", " "))
    total = 0.0
    for phrase, value in phrases.items():
        wanted = words(phrase)
        total += value * sum(said[i : i + len(wanted)] == wanted for i in range(len(said)))
    return total


def earned(bias: Bias, tokens: list[int]) -> tuple[float, float]:
    """Without and with the end of the text."""
    state, total = bias.start, 0.0
    for token in tokens:
        total += float(bias.bonus(state)[token])
        state = bias.next(state, token)
    return total, total + float(bias.bonus(state)[EOS])


@settings(max_examples=100, deadline=None)
@given(PHRASES, TOKENS)
def test_a_finished_text_is_worth_the_phrases_in_it(phrases: list[str], tokens: list[int]) -> None:
    """Whatever the tokens it is cut into, its case and its punctuation."""
    values = {phrase: float(i + 1) for i, phrase in enumerate(phrases)}
    bias = Bias(SPELLING, list(values.items()))
    assert earned(bias, tokens)[1] == pytest.approx(worth(tokens, values), abs=1e-4)


def test_shares_are_lent_letter_by_letter_and_taken_back() -> None:
    bias = Bias(SPELLING, [("abab", 8.0)])
    a_b, ab, comma, b = (FIRST + PIECES.index(piece) for piece in ("▁ab", "ab", ",", "b"))
    assert earned(bias, [a_b])[0] == pytest.approx(4.0)
    assert earned(bias, [a_b, ab])[0] == pytest.approx(8.0)
    assert earned(bias, [a_b, ab, comma]) == pytest.approx((8.0, 8.0))
    assert earned(bias, [a_b, ab, b]) == pytest.approx((0.0, 0.0))  # "ababb" is another word
    assert earned(bias, [a_b, comma])[0] == pytest.approx(0.0)


def test_a_control_symbol_changes_nothing() -> None:
    bias = Bias(SPELLING, [("ab", 2.0)])
    state = bias.next(bias.start, FIRST + PIECES.index("▁a"))
    assert bias.bonus(state)[0] == 0.0
    assert bias.next(state, 0) == state


def test_many_states_are_forgotten_and_found_again() -> None:
    phrases = [
        (f"{x} {y}", 1.0) for x in ("a", "b", "ab", "ba") for y in ("a", "b", "ab", "ba", "abab", "baba")
    ]
    bias = Bias(SPELLING, phrases)
    tokens = [FIRST + i % len(PIECES) for i in range(200)]
    first = earned(bias, tokens)
    np.testing.assert_allclose(earned(bias, tokens), first)
