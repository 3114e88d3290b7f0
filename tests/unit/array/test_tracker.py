"""Voices: found, told apart, followed, kept, forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.array.geometry import angles, unit, wrap
from cosyd.array.tracker import FORGET_S, Peak, Track, Tracker

HOP_S = 0.016


def say(tracker: Tracker, azimuths: list[float], hops: int, noise_deg: float = 0.0, seed: int = 0) -> None:
    """Who is named first is the loudest."""
    rng = np.random.default_rng(seed)
    for _ in range(hops):
        peaks = [
            Peak(unit(azimuth + noise_deg * rng.standard_normal()), 0.5, 1.0 if i == 0 else 0.8)
            for i, azimuth in enumerate(azimuths)
        ]
        tracker.hear(peaks, HOP_S)


def azimuth(track: Track) -> float:
    return angles(track.direction)[0]


def test_a_voice_is_one_only_after_a_while() -> None:
    tracker = Tracker(4)
    say(tracker, [50.0], 2)
    assert tracker.voices == []
    say(tracker, [50.0], 10)
    assert [round(azimuth(v)) for v in tracker.voices] == [50]


def test_what_comes_from_everywhere_is_nobody() -> None:
    tracker = Tracker(4)
    rng = np.random.default_rng(0)
    for _ in range(300):
        tracker.hear([Peak(unit(float(rng.uniform(0, 360))), 0.2)], HOP_S)
    assert len(tracker.voices) <= 1
    assert len(tracker.tracks) < 20


def test_noisy_measurements_are_averaged() -> None:
    tracker = Tracker(4)
    say(tracker, [-170.0], 200, noise_deg=6.0)
    assert abs(wrap(azimuth(tracker.voices[0]) + 170.0)) < 3.0


def test_someone_who_walks_is_followed_across_the_seam() -> None:
    tracker = Tracker(4)
    for step in range(400):  # 30 degrees a second
        tracker.hear([Peak(unit(150.0 + 30.0 * step * HOP_S), 0.5)], HOP_S)
        if step > 50:
            assert abs(wrap(azimuth(tracker.voices[0]) - (150.0 + 30.0 * step * HOP_S))) < 5.0
    assert [voice.number for voice in tracker.voices] == [1]


def test_two_who_take_turns_keep_their_numbers() -> None:
    tracker = Tracker(4)
    for turn in range(6):
        say(tracker, [10.0 if turn % 2 == 0 else 100.0], 60, noise_deg=3.0, seed=turn)
        tracker.silence(1.0)
    assert {voice.number: round(azimuth(voice), -1) for voice in tracker.voices} == {1: 10, 2: 100}


def test_two_who_speak_at_once_are_both_heard() -> None:
    tracker = Tracker(4)
    for turn in range(40):  # each is the louder one now and then
        say(tracker, [0.0, 120.0] if turn % 2 == 0 else [120.0, 0.0], 5)
    assert sorted(round(azimuth(voice)) for voice in tracker.voices) == [0, 120]
    assert min(voice.confidence for voice in tracker.voices) > 0.4


def test_an_echo_from_a_wall_is_nobody() -> None:
    """It comes with the voice and is never the louder one."""
    tracker = Tracker(4)
    say(tracker, [0.0, 120.0], 300)
    assert [round(azimuth(voice)) for voice in tracker.voices] == [0]


def test_who_has_been_silent_for_long_is_forgotten_and_comes_back_as_another() -> None:
    tracker = Tracker(4)
    say(tracker, [30.0], 30)
    tracker.silence(FORGET_S / 2)
    assert [voice.number for voice in tracker.voices] == [1]
    assert tracker.voices[0].confidence < 0.01
    tracker.silence(FORGET_S)
    assert tracker.voices == []
    say(tracker, [30.0], 30)
    assert [voice.number for voice in tracker.voices] == [2]


def test_no_more_voices_than_allowed_and_the_longest_silent_goes() -> None:
    tracker = Tracker(2)
    for place in (0.0, 90.0, 180.0):
        say(tracker, [place], 40)
    assert sorted(round(abs(azimuth(voice))) for voice in tracker.voices) == [90, 180]


def test_two_tracks_that_meet_become_the_older() -> None:
    tracker = Tracker(4)
    say(tracker, [0.0], 40)
    say(tracker, [60.0], 40)
    for step in range(200):
        tracker.hear([Peak(unit(60.0 - 0.3 * step), 0.5)], HOP_S)
    assert [voice.number for voice in tracker.voices] == [1]


def test_reset_forgets_everybody_and_numbers_go_on() -> None:
    tracker = Tracker(4)
    say(tracker, [0.0], 40)
    tracker.reset()
    assert tracker.tracks == []
    say(tracker, [0.0], 40)
    assert [voice.number for voice in tracker.voices] == [2]


@pytest.mark.parametrize("elevation", [0.0, 40.0, 80.0])
def test_directions_in_space_stay_unit_vectors(elevation: float) -> None:
    tracker = Tracker(1)
    rng = np.random.default_rng(0)
    for step in range(100):
        tracker.hear([Peak(unit(step * 0.4 + 5 * rng.standard_normal(), elevation), 0.5)], HOP_S)
    voice = tracker.voices[0]
    assert np.linalg.norm(voice.direction) == pytest.approx(1.0)
    assert abs(voice.velocity @ voice.direction) < 1e-9
