"""Words of a transcript and the tokens that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.asr.whisper_network import Alignment
from cosyd.asr.whisper_words import least_of, spans_of, words_of

HOUSE = "家".encode()


@pytest.mark.parametrize(
    ("pieces", "parts", "spans"),
    [
        ([b" the", b" cat", b"s"], ["the", "cats"], [(0, 0), (1, 2)]),
        ([b" a a", b" a"], ["a", "a", "a"], [(0, 0), (0, 0), (1, 1)]),
        ([HOUSE[:1], HOUSE[1:] + HOUSE[:2], HOUSE[2:]], ["家", "家"], [(0, 1), (1, 2)]),
        ([b" the", b" cat"], ["the", "dog"], []),
        ([], [], []),
    ],
)
def test_tokens_of_each_part(pieces: list[bytes], parts: list[str], spans: list[tuple[int, int]]) -> None:
    assert spans_of(pieces, parts) == spans


def test_a_word_is_as_sure_as_its_least_token_and_ends_where_its_last_one_does() -> None:
    pieces = [b" the", b" cat", b"s"]
    aligned = Alignment(np.array([0.9, 0.3, 0.8]), np.array([0.1, 0.4, 0.7, 0.6]))
    the, cats = words_of(pieces, ["the", "cats"], aligned)
    assert (the.start, the.end, the.conf) == (0.1, 0.4, 0.9)
    assert (cats.start, cats.end, cats.conf) == (0.4, 0.6, 0.3)
    assert least_of(aligned, spans_of(pieces, ["s"])[0]) == 0.8


def test_no_word_ends_before_it_begins() -> None:
    aligned = Alignment(np.array([0.9]), np.array([0.5, 0.2]))
    (word,) = words_of([b" yes"], ["yes"], aligned)
    assert (word.start, word.end) == (0.5, 0.5)
