"""What of an utterance is shown while it grows: words that will most likely stay."""

import pytest

from cosyd.asr.screen import WORDS_BEFORE, Screen, probabilities

SURE_OF_IT, DOUBT, NO = 0.99, 0.85, 0.05
PAUSE_S = 0.3  # from result to result


def after(
    *results: tuple[str, float] | tuple[str, tuple[float, ...]], promised: str = "", pause_s: float = PAUSE_S
) -> list[str]:
    """What is shown after each result; one probability is of all its words."""
    screen = Screen()
    shown = []
    for count, (text, sure) in enumerate(results, start=1):
        each = (sure,) * len(text.split()) if isinstance(sure, float) else sure
        shown.append(screen.show(text, each, promised, count * pause_s))
    return shown


def of_last(text: str, *sure: float, again: int = 0) -> float:
    """The probability that the last word stays."""
    return probabilities(text.split(), sure, again)[-1]


def test_sure_words_are_shown_at_once() -> None:
    assert after(("a b c", SURE_OF_IT)) == ["a b c"]


def test_nothing_is_shown_from_a_doubtful_word_on() -> None:
    assert after(("a b c d", (SURE_OF_IT, NO, SURE_OF_IT, SURE_OF_IT))) == ["a"]
    assert after(("a", NO)) == [""]


def test_a_doubtful_word_is_shown_when_enough_sure_ones_wait_behind_it() -> None:
    words = "a b c d e f g h i j"
    sure = (SURE_OF_IT, 0.5, *(0.999,) * 8)
    shown = [len(after((" ".join(words.split()[:n]), sure[:n]))[0].split()) for n in range(2, 11)]
    assert shown == sorted(shown)
    assert shown[0] == 1
    assert shown[-1] == 10
    assert set(shown) <= {1, *range(2, 11)} - {2}  # never the doubtful one as the last


def test_what_is_said_again_is_shown() -> None:
    assert after(("a b", (SURE_OF_IT, DOUBT)), ("a b", (SURE_OF_IT, DOUBT))) == ["a", "a b"]


def test_where_results_come_less_often_words_are_shown_with_less() -> None:
    fair = ("a b", (SURE_OF_IT, 0.8))
    assert after(fair, pause_s=0.2) == ["a"]
    assert after(fair, pause_s=0.9) == ["a b"]


def test_what_stays_doubtful_waits_for_the_final() -> None:
    assert set(after(*[("a b", (SURE_OF_IT, 0.25))] * 20)) == {"a"}


def test_what_has_not_become_surer_for_long_is_shown() -> None:
    results = [("a b", (SURE_OF_IT, 0.5))] * 20
    shown = after(*results)
    assert shown[:2] == ["a", "a"]
    assert shown[-1] == "a b"
    others = [(f"a {word}", (SURE_OF_IT, 0.4)) for word in "bcdefghijklmnopqrstu"]
    assert set(after(*others)) == {"a"}


def test_what_makes_a_word_likely_to_stay() -> None:
    usual = of_last("a b", 0.9, 0.9)
    assert of_last("a b", 0.9, 0.8) < usual < of_last("a b", 0.9, 0.95)
    assert of_last("a b", 0.5, 0.9) < usual
    assert of_last("a b", 0.9, 0.9, again=2) > usual
    assert of_last("a b", 0.9, 0.9, again=1) == usual
    alone, followed = (probabilities(["a", "b"][:n], (0.9, 0.9)[:n], 0)[0] for n in (1, 2))
    assert followed > alone


def test_words_further_back_tell_nothing() -> None:
    words = "abcdefgh"[: WORDS_BEFORE + 2]
    near, far = ([0.9] * len(words) for _ in range(2))
    far[0], near[1] = 0.1, 0.1
    usual = probabilities(words, [0.9] * len(words), 0)[-1]
    assert probabilities(words, far, 0)[-1] == usual > probabilities(words, near, 0)[-1]


@pytest.mark.parametrize("text", ["a b b", "a b c b c", "no, No"])
def test_an_echo_waits(text: str) -> None:
    """Some say things twice, some decoders have lost the thread: what follows tells."""
    (shown,) = after((text, SURE_OF_IT))
    assert len(shown.split()) < len(text.split())
    assert after((text, SURE_OF_IT), (f"{text} x y", SURE_OF_IT))[-1].lower() == f"{text} x y".lower()


def test_what_returns_later_is_no_echo() -> None:
    assert after(("a b a", SURE_OF_IT)) == ["a b a"]


def test_what_is_shown_does_not_change_and_what_follows_is_shown() -> None:
    shown = after(("a b", SURE_OF_IT), *[("a x y", SURE_OF_IT)] * 6)
    assert shown == ["a b", *["a b y"] * 6]
    assert after(("a b", SURE_OF_IT), ("x", SURE_OF_IT), ("a b c", SURE_OF_IT)) == ["a b", "a b", "a b c"]
    assert after(("a b c", SURE_OF_IT), ("a", SURE_OF_IT), ("a d", SURE_OF_IT)) == ["a b c"] * 3


def test_what_follows_a_change_is_shown_when_it_is_sure_only() -> None:
    assert after(("a b", SURE_OF_IT), ("a x y z", (*(SURE_OF_IT,) * 3, NO)))[-1] == "a b y"


def test_case_and_marks_are_no_change() -> None:
    assert after(("a b.", SURE_OF_IT), ("A b, c", SURE_OF_IT)) == ["a b.", "A b, c"]


def test_marks_are_the_newest_also_where_another_word_stays() -> None:
    """A result's last word often ends a sentence that goes on."""
    shown = after(
        ("he was with for good.", SURE_OF_IT),
        ("He was received for good in the. End.", SURE_OF_IT),
        ("He was received for good, in the end of all", SURE_OF_IT),
    )
    assert shown[1:] == ["He was with for good in the. End.", "He was with for good, in the end of all"]


def test_what_is_promised_is_always_shown() -> None:
    assert after(("a b c", NO), promised="a b") == ["a b"]
    screen = Screen()
    assert screen.show("x y", (SURE_OF_IT,) * 2, "", 0.3) == "x y"
    assert screen.show("a b c", (NO,) * 3, "a b", 0.6) == "a b"
    assert screen.show("a b, z", (NO,) * 3, "a b,", 0.9) == "a b,"


def test_a_recogniser_that_does_not_tell_is_shown_as_it_is() -> None:
    assert after(("a b", ()), ("x", ())) == ["a b", "x"]


def test_probabilities_are_of_the_last_words() -> None:
    """What comes before them was settled earlier; of a text that got shorter the first have no word."""
    assert after(("a b c", (SURE_OF_IT,))) == ["a b c"]
    assert after(("a b c", (NO,))) == ["a b"]
    assert probabilities(["b", "c"], (NO, 0.9, 0.9), 0) == probabilities(["b", "c"], (0.9, 0.9), 0)
