"""Figures, targets, pages; clips in a reel and the way back."""

from __future__ import annotations

import json
import math
import wave
from pathlib import Path

import numpy as np
import pytest

from cosyd.bench.reel import make_reel, said_and_heard, texts_by_clip
from cosyd.bench.report import Figure, Report, markdown, number, percentiles, save
from cosyd.bench.speech import Clip
from cosyd.client import AsrFinal
from cosyd.spec import FRAME


def final(start: float, end: float, text: str) -> AsrFinal:
    return AsrFinal(source="bench", utt=1, text=text, start=start, end=end, reason="silence")


@pytest.mark.parametrize(
    ("value", "target", "at_least", "met"),
    [(3, 3, False, True), (3.1, 3, False, False), (20, 20, True, True), (19, 20, True, False)],
)
def test_target_is_met_at_the_bound(value: float, target: float, at_least: bool, met: bool) -> None:
    assert Figure("f", value, "s", target, at_least).met is met


def test_unmeasured_figure_misses_its_target() -> None:
    assert Figure("f", math.nan, "s", 3).met is False


def test_percentiles_of_nothing_are_no_numbers() -> None:
    assert all(math.isnan(value) for value in percentiles([]).values())
    assert percentiles([1, 2, 3], (50,)) == {50: 2.0}


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1,234"), (12.34, "12.3"), (0.5, "0.5"), (0.0123, "0.0123"), (3, "3")]
)
def test_number_has_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_page_says_what_was_missed_and_where_it_was_measured(tmp_path: Path) -> None:
    report = Report("x", "Title", "Method.", quick=True)
    report.add("speed", 3.5, "s", target=3, note="once")
    report.table("Rows", ("a", "b"), [("1", "2")])
    result = report.as_dict()
    page = markdown(result)
    assert "| speed | 3.5 s | ≤ 3 s | **missed** | once |" in page
    assert "`cosyd bench x --quick`" in page
    assert "| 1 | 2 |" in page
    as_json, as_markdown = save(result, tmp_path)
    assert markdown(json.loads(as_json.read_text())) == as_markdown.read_text() == page


def test_a_chart_lies_beside_the_page_that_shows_it(tmp_path: Path) -> None:
    report = Report("x", "Title", "Method.")
    report.chart("lines", "Some lines", "<svg/>")
    as_json, as_markdown = save(report.as_dict(), tmp_path)
    assert "![Some lines](x-lines.svg)" in as_markdown.read_text()
    assert (tmp_path / "x-lines.svg").read_text() == "<svg/>"
    assert markdown(json.loads(as_json.read_text())) == as_markdown.read_text()
    assert "<svg" not in as_json.read_text()


def clip(seconds: float, level: float) -> Clip:
    return Clip("set", "f", "words", np.full(round(seconds * FRAME.rate_hz), level, np.float32))


def test_reel_places_clips_between_pauses(tmp_path: Path) -> None:
    reel = make_reel(tmp_path / "reel.wav", [clip(1, 0.5), clip(2, 0.25)], pause_s=1.0)
    assert [(placed.start, placed.end) for placed in reel.clips] == [(0.5, 1.5), (2.5, 4.5)]
    assert reel.seconds == 5.0
    with wave.open(str(reel.path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert len(samples) == 5 * FRAME.rate_hz
    second = samples[round(2.5 * FRAME.rate_hz) : round(4.5 * FRAME.rate_hz)]
    assert np.abs(second - 0.25 * 32767).max() <= 1
    assert not samples[: FRAME.rate_hz // 2].any()


def test_what_spoils_the_recording_is_in_the_clip_that_is_compared(tmp_path: Path) -> None:
    spoil = lambda stretch, number: stretch + np.float32(0.1)  # noqa: E731
    reel = make_reel(tmp_path / "reel.wav", [clip(1, 0.5)], spoil, pause_s=1.0)
    np.testing.assert_allclose(reel.clips[0].audio, 0.6, rtol=1e-6)


def test_texts_return_to_the_clips_they_overlap(tmp_path: Path) -> None:
    reel = make_reel(tmp_path / "reel.wav", [clip(1, 0.5), clip(2, 0.5)], pause_s=1.0)
    finals = [
        final(0.4, 1.6, "one"),
        final(2.4, 3.0, "two"),
        final(3.5, 4.4, "three"),
        final(1.7, 2.0, "ghost"),
    ]
    assert texts_by_clip(reel, finals) == ["one ghost", "two three"]


def test_what_one_final_says_of_two_clips_is_held_against_both(tmp_path: Path) -> None:
    clips = [clip(number, 0.5) for number in (1, 2, 3)]
    reel = make_reel(tmp_path / "reel.wav", clips, pause_s=1.0)
    first, second, third = reel.clips
    said = first.text, second.text, third.text
    apart = [final(each.start, each.end, text) for each, text in zip(reel.clips, "abc", strict=True)]
    assert said_and_heard(reel, apart) == list(zip(said, "abc", strict=True))
    both = [final(first.start, second.end, "a b"), final(third.start - 0.3, third.end, "c")]
    assert said_and_heard(reel, both) == [(f"{said[0]} {said[1]}", "a b"), (said[2], "c")]
