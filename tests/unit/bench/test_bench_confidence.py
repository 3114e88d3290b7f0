"""Which words of a result are right."""

from __future__ import annotations

import pytest

from cosyd.types import Word


def test_words_are_judged_by_the_shortest_alignment() -> None:
    pytest.importorskip("rapidfuzz", reason="needs the bench extra")
    from cosyd.bench.judged import judge_words

    words = [
        Word("A", 0, 1, 0.9), Word("flat,", 1, 2, 0.8), Word("wide", 2, 3, 0.4), Word("um", 3, 4, 0.2),
        Word("twenty-two", 4, 5, 0.7), Word("please.", 5, 6), Word("–", 6, 7, 0.5), Word("22", 7, 8, 0.6),
    ]  # fmt: skip
    found = judge_words(words, "a flat white twenty two please twenty three")
    assert found == [(0, True), (1, True), (2, False), (3, False), (4, True), (7, False)]
