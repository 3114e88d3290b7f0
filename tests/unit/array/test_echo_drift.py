"""Drift between the clocks of playback and capture, by itself and through the canceller."""

from __future__ import annotations

import numpy as np
import pytest
from echo_scene import RATE, Real, babble, cancel, erle, hiss, room, through

from cosyd.array.echo import EchoCanceller
from cosyd.array.echo_drift import MOST_PPM, DriftTracker
from cosyd.array.echo_reference import ReferenceLine

LOOK = 4_000  # samples from one delay to the next


def drifting(echo: Real, ppm: float) -> Real:
    """As a playback clock that is fast by ``ppm`` makes it: earlier and earlier."""
    line = ReferenceLine(len(echo), echo.shape[1])
    line.write(echo)
    ratio = 1 + ppm * 1e-6
    pieces = [line.read(at * ratio, 4000, ratio) for at in range(0, echo.shape[1] - 4000, 4000)]
    return np.concatenate(pieces, axis=1)


def late(sound: Real, samples: int) -> Real:
    return np.concatenate([np.zeros(samples, np.float32), sound])[: len(sound)]


# --- the tracker ---


def tracked(
    tracker: DriftTracker, ppm: float, looks: range, start: float = 500.0, noise: float = 0.02
) -> None:
    random = np.random.default_rng(7)
    for look in looks:
        delay = start + ppm * 1e-6 * look * LOOK + noise * random.standard_normal()
        tracker.accept(look * LOOK, delay)


@pytest.mark.parametrize("ppm", [-250.0, -40.0, 40.0, 100.0])
def test_the_slope_of_the_delays_is_the_drift(ppm: float) -> None:
    tracker = DriftTracker()
    tracked(tracker, ppm, range(24))
    assert tracker.ppm == pytest.approx(ppm, abs=2)
    assert tracker.skew == pytest.approx(ppm * 1e-6, abs=2e-6)


def test_delays_that_only_scatter_are_no_drift() -> None:
    tracker = DriftTracker()
    tracked(tracker, 0.0, range(60))
    assert abs(tracker.ppm) < 2 and tracker.skew == 0


def test_a_delay_astray_is_left_out_and_a_jump_begins_a_new_line() -> None:
    tracker = DriftTracker()
    tracked(tracker, 100.0, range(12))
    tracker.accept(12 * LOOK, 9_000.0)
    tracked(tracker, 100.0, range(13, 16))
    assert tracker.ppm == pytest.approx(100, abs=3)
    tracked(tracker, 100.0, range(16, 20), start=1_300.0)
    assert tracker.ppm == pytest.approx(100, abs=3)  # known still, though too few looks are there for a line
    tracked(tracker, 60.0, range(20, 44), start=1_303.2)
    assert tracker.ppm == pytest.approx(60, abs=3)


def test_what_cannot_be_a_clock_is_not_followed_for_long() -> None:
    tracker = DriftTracker()
    tracked(tracker, 340.0, range(12), noise=0.0)
    assert abs(tracker.ppm) <= MOST_PPM


# --- the canceller ---


@pytest.mark.parametrize("ppm", [-100, -50, 50, 100])
def test_a_drifting_playback_clock_is_followed(ppm: int) -> None:
    sound = babble(7, 1)
    echo = drifting(through(late(sound, 320), room(2)), ppm)
    canceller = EchoCanceller(1, suppress_db=0)
    out = cancel(canceller, echo + hiss(echo.shape), sound[: echo.shape[1]])
    assert canceller.state.drift_ppm == pytest.approx(-ppm, abs=4)
    assert erle(echo, out, 2, 4) >= 22
    assert erle(echo, out, 4, 6.7) >= 26  # of the linear filter alone


def test_a_drifting_clock_and_a_jump_are_survived_together() -> None:
    sound, at = babble(7, 1), 4 * RATE
    early, later = (through(late(sound, delay), room(2)) for delay in (800, 1_600))
    echo = drifting(np.concatenate([early[:, :at], later[:, at:]], axis=1), 100)
    out = cancel(EchoCanceller(1), echo + hiss(echo.shape), sound[: echo.shape[1]])
    assert erle(echo, out, 5.5, 6.7) >= 30


def test_where_the_reference_cannot_be_read_earlier_nothing_runs_away() -> None:
    """Playback runs fast, and its echo comes at once: after some seconds it comes before what was played."""
    sound = babble(6, 1)
    echo = drifting(through(sound, room(2, direct=4)), 100)
    canceller = EchoCanceller(1)
    cancel(canceller, echo + hiss(echo.shape), sound[: echo.shape[1]])
    assert canceller.state.delay == 0
    assert -110 < canceller.state.drift_ppm < -80
