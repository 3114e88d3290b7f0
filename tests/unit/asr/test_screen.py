"""What of an utterance is shown while it grows: sure words at once, others when they are said again."""

import pytest

from cosyd.asr.screen import CHANGED_BY, SURE, SURE_LAST, Screen

SURE_OF_IT, FAIR, DOUBT = 0.99, (SURE + SURE_LAST) / 2, SURE - 0.01


def after(*results: tuple[str, float] | tuple[str, tuple[float, ...]], promised: str = "") -> list[str]:
    """What is shown after each result; one probability is of all its words."""
    screen = Screen()
    shown = []
    for text, sure in results:
        each = (sure,) * len(text.split()) if isinstance(sure, float) else sure
        shown.append(screen.show(text, each, promised))
    return shown


def test_sure_words_are_shown_at_once() -> None:
    assert after(("a b c", SURE_OF_IT)) == ["a b c"]


def test_the_last_word_needs_to_be_surer() -> None:
    assert after(("a b c", FAIR)) == ["a b"]


def test_nothing_is_shown_from_a_doubtful_word_on() -> None:
    assert after(("a b c d", (SURE_OF_IT, DOUBT, SURE_OF_IT, SURE_OF_IT))) == ["a"]


def test_what_is_said_twice_is_shown() -> None:
    assert after(("a b", DOUBT), ("a b c", DOUBT)) == ["", "a b"]


def test_a_first_word_alone_needs_two_results() -> None:
    assert after(("a", SURE_OF_IT), ("a", SURE_OF_IT)) == ["", "a"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a b b b", "a b"), ("a b c b c", "a b c b"), ("no, No way", "no,"), ("a b a", "a b a")],
)
def test_an_echo_waits(text: str, shown: str) -> None:
    """Some say things twice, some decoders have lost the thread: the next result tells."""
    assert after((text, SURE_OF_IT), (text, SURE_OF_IT)) == [shown, text]


def test_a_change_needs_several_results_and_what_follows_does_not() -> None:
    shown = after(("a b", SURE_OF_IT), *[("a x y", SURE_OF_IT)] * CHANGED_BY)
    assert shown == ["a b", *["a b y"] * (CHANGED_BY - 1), "a x y"]


def test_one_result_that_has_it_as_it_was_is_enough_against_a_change() -> None:
    changes = [("a x y", SURE_OF_IT)] * (CHANGED_BY - 1)
    assert after(("a b", SURE_OF_IT), *changes, ("a b y", SURE_OF_IT), *changes)[-1] == "a b y"


def test_a_passing_change_is_never_seen() -> None:
    assert after(("a b", SURE_OF_IT), ("x", SURE_OF_IT), ("a b c", SURE_OF_IT)) == ["a b", "a b", "a b c"]


def test_words_that_are_gone_stay_until_something_takes_their_place() -> None:
    shown = after(("a b c", SURE_OF_IT), ("a", SURE_OF_IT), ("a", SURE_OF_IT), ("a d", SURE_OF_IT))
    assert shown == ["a b c", "a b c", "a b c", "a b c"]
    assert after(("a b c", SURE_OF_IT), *[("a d e", SURE_OF_IT)] * CHANGED_BY)[-1] == "a d e"


def test_case_and_marks_are_no_change() -> None:
    assert after(("a b.", SURE_OF_IT), ("A b, c", SURE_OF_IT)) == ["a b.", "A b, c"]


def test_what_is_promised_is_always_shown() -> None:
    assert after(("a b c", DOUBT), promised="a b") == ["a b"]
    screen = Screen()
    assert screen.show("x y", (SURE_OF_IT,) * 2, "") == "x y"
    assert screen.show("a b c", (DOUBT,) * 3, "a b") == "a b"
    assert screen.show("a b, z", (DOUBT,) * 3, "a b,") == "a b,"


def test_a_recogniser_that_does_not_tell_is_shown_as_it_is() -> None:
    assert after(("a b", ()), ("x", ())) == ["a b", "x"]


@pytest.mark.parametrize("promised", ["a", "a b"])
def test_probabilities_are_of_the_last_words(promised: str) -> None:
    """What comes before them was settled earlier and is shown as soon as it is promised."""
    known = 3 - len(promised.split())
    assert after(("a b c", (SURE_OF_IT,) * known), promised=promised) == ["a b c"]
