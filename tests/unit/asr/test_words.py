"""Times of words: in the source clock, and beside the text that is published."""

from __future__ import annotations

import pytest

from cosyd.asr.words import fitted, placed
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
