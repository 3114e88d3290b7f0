"""The rules that end an utterance, and the search for a pause."""

import pytest

from cosyd.asr.endpoint import LONG_MS, EndpointRules, Progress, best_pause
from cosyd.config.schema import EndpointConfig
from cosyd.spec import FRAME

RULES = EndpointRules(EndpointConfig(), limit_ms=30_000)
LONG = 50  # blocks of speech, more than very short


@pytest.mark.parametrize(
    ("progress", "reason"),
    [
        (Progress(quiet=24, speech=LONG, length=100, stale=0), None),
        (Progress(quiet=25, speech=LONG, length=100, stale=0), "silence"),
        (Progress(quiet=25, speech=5, length=60, stale=0), None),
        (Progress(quiet=38, speech=5, length=60, stale=0), "silence_short"),
        (Progress(quiet=0, speech=780, length=781, stale=0), "longest"),
        (Progress(quiet=0, speech=LONG, length=300, stale=156), None),
        (Progress(quiet=0, speech=LONG, length=300, stale=157), "no_speech"),
        (Progress(quiet=25, speech=LONG, length=781, stale=200), "silence"),
    ],
)
def test_rule(progress: Progress, reason: str | None) -> None:
    assert RULES.decide(progress) == reason


def test_a_short_patience_below_the_usual_one_is_the_usual_one() -> None:
    rules = EndpointRules(EndpointConfig(silence_ms=1_000, short_silence_ms=100), 30_000)
    assert rules.decide(Progress(quiet=31, speech=1, length=40, stale=0)) is None


def test_the_recogniser_s_limit_holds() -> None:
    assert EndpointRules(EndpointConfig(longest_ms=60_000), limit_ms=10_000).longest == 312


def test_the_tail_ends_before_the_silence_does() -> None:
    for silence in (100, 200, 800, 10_000):
        rules = EndpointRules(EndpointConfig(silence_ms=silence), 30_000)
        for end in (0, FRAME.blocks(LONG_MS)):
            assert 1 <= rules.tail(end) < -(-silence // 32)
            assert rules.tail(end) + rules.slack(end) == -(-silence // 32)


def test_best_pause_is_the_middle_of_the_quietest_stretch() -> None:
    probs = [0.9] * 40
    probs[20:24] = [0.3, 0.2, 0.2, 0.3]
    assert best_pause(probs, [-20.0] * 40) == 22


def test_a_single_quiet_block_is_no_pause() -> None:
    probs = [0.9] * 40
    probs[5] = 0.0  # a stop consonant
    probs[20:24] = [0.5] * 4
    assert best_pause(probs, [-20.0] * 40) == 22


def test_level_decides_where_the_probability_does_not() -> None:
    levels = [-20.0] * 40
    levels[10:14] = [-50.0] * 4
    assert best_pause([0.99] * 40, levels) == 12


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_short_windows_are_cut_inside(length: int) -> None:
    assert 1 <= best_pause([0.5] * length, [-20.0] * length) <= length


def test_of_a_long_utterance_the_final_is_begun_sooner() -> None:
    rules, long = EndpointRules(EndpointConfig(), 30_000), FRAME.blocks(LONG_MS)
    assert rules.tail(long) < rules.tail(long - 1)
    assert rules.cut(long) < long + rules.tail(0)
