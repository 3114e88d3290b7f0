"""The stable prefix: which words are promised, when, and how a promise is kept."""

import pytest

from cosyd.asr.stable import AGREE_MS, HOLD_BACK, SURE, StablePrefix, keep_promise
from cosyd.spec import FRAME
from cosyd.types import Transcript

AGREE = FRAME.blocks(AGREE_MS)
NEVER = 10_000


def but_last(text: str) -> str:
    """Without the words that are held back."""
    return " ".join(text.split()[:-HOLD_BACK])


def after(*texts: str, every: int = AGREE // 3 + 1, freeze: int = NEVER) -> StablePrefix:
    stable = StablePrefix()
    for i, text in enumerate(texts):
        stable.add(i * every, Transcript(text), freeze)
    return stable


def test_nothing_is_promised_before_the_time_has_passed() -> None:
    assert after(*["a b c d e f g"] * 3).text == ""


def test_words_that_all_agreed_on_are_promised_but_for_the_last() -> None:
    assert after(*["a b c d e f g"] * 4).text == but_last("a b c d e f g")


def test_one_dissenter_stops_it() -> None:
    assert after("a b c d e f g", "a x c d e f g", "a b c d e f g", "a b c d e f g h").text == "a"


def test_words_need_to_have_been_there_all_the_time() -> None:
    assert after("a b c d e", *["a b c d e f g h"] * 3).text == but_last("a b c d e")


def test_two_partials_far_apart_are_enough() -> None:
    assert after("a b c d e f g", "a b c d e f g h i", every=AGREE * 3).text == but_last("a b c d e f g")


def test_a_promise_never_shrinks_nor_changes() -> None:
    stable = after(*["a b c d e f g"] * 4)
    for i in range(4, 20):
        stable.add(i * AGREE, Transcript("x y z u v w"), NEVER)
        assert stable.text == but_last("a b c d e f g")


def test_words_first_heard_after_the_freeze_are_not_promised() -> None:
    assert after(*["a b c d e f g"] * 4, freeze=0).text == but_last("a b c d e f g")
    stable = StablePrefix()
    for i in range(1, 10):
        stable.add(i * AGREE, Transcript("a b c d e f g"), 0)
    assert stable.text == ""


@pytest.mark.parametrize(
    ("promised", "text", "kept"),
    [
        ("", "a b", "a b"),
        ("a b", "a b c", "a b c"),
        ("a b", "a x c", "a b c"),
        ("a b c", "a c d", "a b c d"),  # a word too few
        ("a b", "a x b c", "a b c"),  # a word too many
        ("It was", "it was, then", "It was then"),
        ("a b c", "", "a b c"),
        ("a b c", "a", "a b c"),
        ("a b", "  a   b  c ", "a b c"),
    ],
)
def test_keeping_a_promise(promised: str, text: str, kept: str) -> None:
    assert keep_promise(promised, text) == kept


def test_a_doubted_word_is_not_promised_nor_what_follows_it() -> None:
    stable = StablePrefix()
    sure = (0.99, 0.95, SURE - 0.01, 0.99, 0.99, 0.99, 0.99, 0.99, 0.99)
    for i in range(4):
        stable.add(i * AGREE, Transcript("a b c d e f g h i", sure=sure), NEVER)
    assert stable.text == "a b"
    certain = Transcript("a b c d e f g h i", sure=(0.99,) * 9)
    for i in range(4, 8):
        stable.add(i * AGREE, certain, NEVER)
    assert stable.text == but_last("a b c d e f g h i")


def test_what_is_promised_is_beyond_doubt() -> None:
    stable = StablePrefix("a b c")
    for i in range(4):
        stable.add(i * AGREE, Transcript("a b c d e f g h", sure=(0.1,) * 3 + (0.99,) * 5), NEVER)
    assert stable.text == but_last("a b c d e f g h")
