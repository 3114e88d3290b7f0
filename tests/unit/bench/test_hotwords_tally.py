"""Errors, found and invented hotwords, counted by hand."""

from __future__ import annotations

import pytest

from cosyd.bench.hotwords_tally import Tally, edit_distance, fall, fall_range

PHRASES = ("coffee", "iced coffee", "dark roast", "latte")


def tally(*pairs: tuple[str, str]) -> Tally:
    made = Tally(PHRASES)
    for reference, result in pairs:
        made.add(reference, result)
    return made


@pytest.mark.parametrize(
    ("reference", "result", "said", "found", "alarms"),
    [
        ("an iced coffee please", "An iced coffee, please.", 1, 1, 0),  # the longest phrase counts, once
        ("an iced coffee please", "and I'd coffee please", 1, 0, 1),
        ("a latte with milk", "a ladder with milk", 1, 0, 0),
        ("a ladder", "a latte", 0, 0, 1),
        ("one latte", "one latte latte latte", 1, 1, 2),
        ("a dark roast roast", "a dark roast dark roast", 1, 1, 1),
        ("latte latte", "Latte. Latte.", 2, 2, 0),  # neighbours count both
        ("the lattes", "the lattes", 0, 0, 0),
    ],
)
def test_hotwords_are_counted(reference: str, result: str, said: int, found: int, alarms: int) -> None:
    made = tally((reference, result))
    assert (made.said, made.found, made.alarms) == (said, found, alarms)


def test_errors_add_up_and_falls_are_relative() -> None:
    without = tally(("a b c d", "a x c"), ("e f", "e f"))
    by = tally(("a b c d", "a b c"), ("e f", "e f"))
    assert (without.errors, without.words, by.errors) == (2, 6, 1)
    assert without.wer == pytest.approx(100 / 3)
    assert fall(without, by) == pytest.approx(50)
    assert fall(tally(("a", "a")), tally(("a", "b"))) == -100  # none before, one after


def test_the_range_holds_the_fall_and_narrows_with_more_clips() -> None:
    clips = [("a b c d", "x y c d"), ("a b", "a b"), ("a b c", "a x c")]
    better = [("a b c d", "x b c d"), ("a b", "a b"), ("a b c", "a b c")]
    ranges = []
    for times in (4, 64):
        without, by = tally(*clips * times), tally(*better * times)
        low, high = fall_range(without, by)
        assert low <= fall(without, by) <= high
        ranges.append(high - low)
    assert ranges[1] < ranges[0]


def test_the_distance_is_the_fewest_edits() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance([], ["a", "b"]) == 2
