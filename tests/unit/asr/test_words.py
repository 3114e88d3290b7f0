"""Times of words: in the source clock, and beside the text that is published."""

from __future__ import annotations

import pytest

from cosyd.asr.words import fitted, placed, units
from cosyd.types import Transcript, Word

HEARD = (Word("a", 0.1, 0.2, 0.9), Word("b", 0.3, 0.5, 0.8), Word("c", 0.6, 0.9, 0.7))


def test_placed_in_the_source_clock() -> None:
    words = placed(Transcript("a b c", words=HEARD), 3_600.25).words
    assert [(w.w, w.start, w.end, w.conf) for w in words][1] == ("b", 3_600.55, 3_600.75, 0.8)


def test_without_words_nothing_changes() -> None:
    transcript = Transcript("a b c")
    assert placed(transcript, 5.0) is transcript


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("a b c", [("a", 0.1, 0.2), ("b", 0.3, 0.5), ("c", 0.6, 0.9)]),
        ("a X c", [("a", 0.1, 0.2), ("X", 0.3, 0.5), ("c", 0.6, 0.9)]),
        ("X Y Z c", [("X", 0.1, 0.233), ("Y", 0.233, 0.367), ("Z", 0.367, 0.5), ("c", 0.6, 0.9)]),
        ("X c", [("X", 0.1, 0.5), ("c", 0.6, 0.9)]),
        ("a c", [("a", 0.1, 0.2), ("c", 0.6, 0.9)]),
        ("a b c d", []),
        ("", []),
    ],
)
def test_fitted_to_the_text(text: str, spans: list[tuple[str, float, float]]) -> None:
    words = fitted(HEARD, text)
    assert [(w.w, w.start, w.end) for w in words] == spans
    assert all(w.conf is None for w in words if w not in HEARD)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's here, now.", ["It's", "here,", "now."]),
        ("说 hello, 好。", ["说", "hello,", "好。"]),
        ("用iPhone打", ["用", "iPhone", "打"]),
        ("한국어 말", ["한국어", "말"]),
        ("", []),
    ],
)
def test_units(text: str, expected: list[str]) -> None:
    assert units(text) == expected


def test_characters_without_blanks_keep_their_times() -> None:
    words = tuple(Word(character, i / 10, i / 10 + 0.1, 0.9) for i, character in enumerate("你好"))
    assert fitted(words, "你好") == words
    assert [word.w for word in fitted(words, "您好")] == ["您", "好"]
