"""When words came on the screen, and which of them went again."""

import pytest

from cosyd.bench.shown import Shown, keys, matched
from cosyd.types import Word

pytest.importorskip("rapidfuzz", reason="needs the bench extra")


def shown(*texts: tuple[float, str], ends: tuple[float, ...] = ()) -> Shown:
    words = tuple(Word(w, 0.0, end, 0.9) for w, end in zip(texts[-1][1].split(), ends, strict=False))
    return Shown(list(texts), words)


def test_a_word_counts_from_the_text_that_keeps_it() -> None:
    watched = shown((1.0, "a"), (2.0, "a bee"), (3.0, "a bee see"), (4.0, "A, be see."), ends=(0.5, 1.5, 2.5))
    assert watched.delays() == pytest.approx([0.5, 2.5, 0.5])


def test_a_word_that_went_and_came_back_counts_from_its_return() -> None:
    assert shown((1.0, "a b"), (2.0, "a"), (3.0, "a b"), ends=(0.0, 0.0)).delays() == [1.0, 3.0]


def test_a_word_before_another_shifts_nothing() -> None:
    assert shown((1.0, "b c"), (2.0, "a b c"), ends=(0.0, 0.0, 0.0)).delays() == [2.0, 1.0, 1.0]


def test_words_without_a_time_of_their_own_do_not_count() -> None:
    watched = shown((1.0, "a b"), ends=(0.5, 0.5))
    watched.words = (watched.words[0], Word("b", 0.0, 0.5, None))
    assert watched.delays() == [0.5]
    watched.words = ()
    assert watched.delays() == []


@pytest.mark.parametrize(
    ("texts", "changes"),
    [
        (("a", "a b", "a b c"), (3, 0)),
        (("a b", "a c"), (3, 1)),
        (("a b c", "a"), (3, 2)),
        (("a b.", "A, b"), (2, 0)),
        (("",), (0, 0)),
        (("b c", "a b c"), (3, 0)),
    ],
)
def test_changes(texts: tuple[str, ...], changes: tuple[int, int]) -> None:
    assert shown(*[(float(i), text) for i, text in enumerate(texts)]).changes() == changes


def test_keys_leave_letters_and_figures() -> None:
    assert keys("It's 5 o'clock, Ann!") == ["its", "5", "oclock", "ann"]


def test_matching_is_by_fewest_edits() -> None:
    assert matched(["a", "b", "a"], ["x", "b", "a"]) == {1, 2}
