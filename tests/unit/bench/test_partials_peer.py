"""What another library showed of a recording, held against the times of cosyd's words."""

import numpy as np
import pytest

pytest.importorskip("rapidfuzz", reason="needs the bench extra")

from cosyd.bench.ask_moonshine import MOONSHINE_ENV
from cosyd.bench.partials_peer import Line, lines_of, moonshine_lines, timed
from cosyd.types import Word

SPOKEN = [Word("Good", 1.0, 1.4, 0.9), Word("morning,", 1.4, 2.0, 0.9), Word("all.", 2.1, 2.5, 0.9)]


def line(*changes: tuple[float, str]) -> Line:
    (found,) = lines_of([(when, 7, text, 0.9, when - 0.9) for when, text in changes])
    return found


def test_lines_are_told_apart_by_their_numbers_and_end_where_they_were_last_said_to() -> None:
    changes = [(1.5, 1, "good", 1.0, 0.4), (5.5, 2, "bye", 5.0, 0.3), (2.5, 1, "good morning", 1.0, 1.0)]
    first, second = lines_of(changes)
    assert (first.begin, first.end, first.shown.texts) == (1.0, 2.0, [(1.5, "good"), (2.5, "good morning")])
    assert second.shown.texts == [(5.5, "bye")]


def test_a_text_that_stays_is_told_once() -> None:
    assert line((1.5, "good"), (1.8, "good"), (2.5, "good morning")).shown.texts == [
        (1.5, "good"),
        (2.5, "good morning"),
    ]


def test_delays_are_from_the_ends_of_the_same_words() -> None:
    found = timed(line((1.5, "Could"), (2.4, "Good morning"), (3.0, "good morning all")), SPOKEN)
    assert found.shown.delays() == pytest.approx([1.0, 0.4, 0.5])
    assert found.shown.changes() == (4, 1)


def test_words_that_cosyd_did_not_hear_have_no_delay() -> None:
    found = timed(line((3.0, "good evening all")), SPOKEN)
    assert found.shown.delays() == pytest.approx([1.6, 0.5])


def test_words_may_be_paired_in_more_than_one_way() -> None:
    spoken = [Word(word, 1.0 + i, 1.5 + i, 0.9) for i, word in enumerate("bbbcba")]
    assert len(timed(line((9.0, "a c a b a")), spoken).shown.words) == 5


def test_words_said_elsewhere_in_the_recording_do_not_count() -> None:
    assert timed(line((3.0, "bye")), [*SPOKEN, Word("bye", 9.0, 9.4, 0.9)]).shown.delays() == []


def test_it_says_why_it_was_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = np.zeros(16_000, np.float32)
    monkeypatch.delenv(MOONSHINE_ENV, raising=False)
    assert "names no interpreter" in str(moonshine_lines(silence, 0.3))
    monkeypatch.setenv(MOONSHINE_ENV, "/nowhere/python")
    assert moonshine_lines(silence, 0.3) == f"{MOONSHINE_ENV}=/nowhere/python: no such file"
