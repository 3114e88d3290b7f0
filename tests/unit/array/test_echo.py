"""The echo canceller against echoes that are known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from echo_scene import RATE, Real, babble, cancel, decibels, erle, hiss, room, through

from cosyd.array.echo import EchoCanceller
from cosyd.array.echo_delay import DelayEstimate, DelayEstimator
from cosyd.array.echo_filter import KalmanEchoFilter
from cosyd.array.echo_reference import ReferenceLine
from cosyd.spec import FRAME

# --- the parts ---


def test_reading_whole_samples_gives_them_back_and_silence_beyond() -> None:
    line = ReferenceLine(2, 1000)
    written = np.arange(1600, dtype=np.float32).reshape(2, 800)
    line.write(written)
    assert np.array_equal(line.read(100, 50), written[:, 100:150])
    assert not line.read(-60, 50).any()
    assert np.array_equal(line.read(790, 20)[:, :10], written[:, 790:])
    assert not line.read(790, 20)[:, 10:].any()


@pytest.mark.parametrize("frequency", [200.0, 1_000.0, 3_000.0, 6_000.0])
def test_reading_between_samples_is_exact_to_minus_50_db(frequency: float) -> None:
    line = ReferenceLine(1, 8192)
    line.write(np.sin(2 * np.pi * frequency / RATE * np.arange(8192))[None].astype(np.float32))
    read = line.read(1000.37, 2000, 1.0001)[0]
    right = np.sin(2 * np.pi * frequency / RATE * (1000.37 + 1.0001 * np.arange(2000)))
    assert np.abs(read - right).max() < 10 ** (-50 / 20)


@pytest.mark.parametrize("delay", [0, 1, 777, 15_900])
def test_delay_is_found_exactly(delay: int) -> None:
    sound = babble(4, 1)
    heard = np.concatenate([np.zeros(delay, np.float32), sound])[: len(sound)] + hiss(sound.shape, db=-50)
    found = _looks(DelayEstimator(RATE, 16_000), heard, sound)
    assert found and found[-1].delay == delay


def test_delay_is_found_beneath_louder_speech() -> None:
    sound, near = babble(5, 1), babble(5, 2, level=0.16)
    heard = through(sound, room(3))[0] + near
    found = _looks(DelayEstimator(RATE, 16_000), heard, sound)
    assert [estimate.delay for estimate in found[-4:]] == [40] * 4


def test_no_delay_is_found_where_there_is_no_echo() -> None:
    estimator = DelayEstimator(RATE, 16_000)
    found = _looks(estimator, babble(5, 1), babble(5, 2))
    assert not [a for a, b in pairwise(found) if abs(a.delay - b.delay) <= 2]
    estimator.reset()
    assert not _looks(estimator, babble(2, 1), np.zeros(2 * RATE, np.float32))


def _looks(estimator: DelayEstimator, mic: Real, reference: Real) -> list[DelayEstimate]:
    pieces = range(0, len(mic) - 255, 256)
    looks = [estimator.accept(mic[at : at + 256], reference[at : at + 256]) for at in pieces]
    return [look for look in looks if look is not None]


def test_filter_learns_the_echo_path_itself() -> None:
    sound = np.random.default_rng(5).standard_normal(8 * RATE).astype(np.float32) * 0.1
    path = room(6, rt60_s=0.1)
    heard = through(sound, path) + hiss((1, len(sound)))
    learner = KalmanEchoFilter(1, 1, 256, 8, RATE)
    for at in range(0, len(sound) - 255, 256):
        learner.process(heard[:, at : at + 256], sound[None, at : at + 256])
    learnt = learner.impulses()[0, 0, : path.shape[1]]
    assert decibels(path[0], path[0] - learnt) > 30


# --- the whole ---


@pytest.mark.parametrize("rt60_s", [0.3, 0.6])
def test_far_end_only_is_30_db_down_after_two_seconds(rt60_s: float) -> None:
    sound = babble(6, 1)
    echo = through(sound, room(2, rt60_s, mics=2))
    out = cancel(EchoCanceller(2), echo + hiss(echo.shape), sound)
    assert erle(echo, out, 2, 5.9) >= 30


def test_linear_filter_alone_does_most_of_it() -> None:
    sound = babble(6, 1)
    echo = through(sound, room(2))
    out = cancel(EchoCanceller(1, suppress_db=0), echo + hiss(echo.shape), sound)
    assert erle(echo, out, 2, 5.9) >= 22


def test_speech_is_kept_in_double_talk() -> None:
    sound = babble(8, 1)
    echo = through(sound, room(2))
    near = babble(8, 7, level=float(np.std(echo)))[None]
    near[:, : 4 * RATE] = 0
    for suppress_db, least in ((0.0, 18.0), (-30.0, 10.0)):
        out = cancel(EchoCanceller(1, suppress_db=suppress_db), echo + near + hiss(echo.shape), sound)
        part = slice(4 * RATE, round(7.9 * RATE))
        assert decibels(near[:, part], out[:, part] - near[:, part]) > least
        assert erle(echo, out, 2, 4) >= (22 if suppress_db == 0 else 30)  # and it had cancelled before


def test_no_drift_is_seen_where_there_is_none() -> None:
    sound = babble(8, 1)
    canceller = EchoCanceller(1)
    cancel(canceller, through(sound, room(2)) + hiss((1, len(sound))), sound)
    assert abs(canceller.state.drift_ppm) < 5 and canceller.state.delay == round(canceller.state.delay)


@pytest.mark.parametrize("jump", [7, -160, 4000])
def test_a_jump_of_the_delay_is_survived(jump: int) -> None:
    sound, at = babble(8, 1), 4 * RATE
    echo = through(sound, room(2))
    early, late = (np.concatenate([np.zeros((1, d), np.float32), echo], axis=1) for d in (1000, 1000 + jump))
    heard = np.concatenate([early[:, :at], late[:, at : echo.shape[1]]], axis=1)
    canceller = EchoCanceller(1)
    out = cancel(canceller, heard + hiss(heard.shape), sound)
    assert erle(heard, out, 2.5, 4) >= 30
    assert erle(heard, out, 5.5, 7.9) >= 30
    assert canceller.state.moves == 2  # to the echo, and after the jump


def test_a_second_reference_is_cancelled_too() -> None:
    left, right = babble(8, 1), babble(8, 2)
    echo = through(left, room(2)) + through(right, room(3))
    out = cancel(EchoCanceller(1, 2), echo + hiss(echo.shape), np.stack([left, right]))
    assert erle(echo, out, 3, 7.9) >= 25


@pytest.mark.parametrize("suppress_db", [0.0, -30.0])
def test_without_a_reference_the_microphone_passes_delayed(suppress_db: float) -> None:
    mic = babble(2, 4)[None]
    out = cancel(EchoCanceller(1, suppress_db=suppress_db), mic, np.zeros_like(mic))
    assert np.abs(out - mic[:, : out.shape[1]]).max() < 1e-6


def test_a_reference_that_nobody_hears_does_no_harm() -> None:
    near, played = babble(6, 4)[None], babble(6, 5)
    out = cancel(EchoCanceller(1), near, played)
    part = slice(2 * RATE, round(5.9 * RATE))
    assert decibels(near[:, part], out[:, part] - near[:, part]) > 20


def test_what_comes_out_does_not_depend_on_the_pieces() -> None:
    sound = babble(2, 1)
    mic = through(sound, room(2, mics=2)) + hiss((2, len(sound)))
    whole = cancel(EchoCanceller(2), mic, sound, piece=FRAME.block)
    for piece in (FRAME.hop, 3 * FRAME.hop, 11 * FRAME.hop):
        assert np.array_equal(cancel(EchoCanceller(2), mic, sound, piece=piece), whole)


def test_reset_is_like_new() -> None:
    sound = babble(2, 1)
    mic = through(sound, room(2)) + hiss((1, len(sound)))
    canceller = EchoCanceller(1)
    first = cancel(canceller, mic, sound, piece=3 * FRAME.hop)
    canceller.reset()
    assert np.array_equal(cancel(canceller, mic, sound, piece=3 * FRAME.hop), first)


@pytest.mark.parametrize("gain_db", [-20.0, 0.0, 15.0])
@pytest.mark.parametrize("delay_ms", [0, 60])
def test_an_echo_of_whatever_level_is_gone_within_two_seconds(gain_db: float, delay_ms: int) -> None:
    """What was heard before delay and gain were known is learned from once they are."""
    played = babble(3.5, 21, level=0.02)
    echo = through(played, room(22))[0] * np.float32(10 ** (gain_db / 20))
    echo = np.pad(echo, (delay_ms * RATE // 1000, 0))[: len(played)]
    heard = echo + hiss(echo.shape, db=20 * np.log10(float(np.sqrt(np.mean(echo**2)))) - 50)
    out = cancel(EchoCanceller(1), heard, played)
    assert erle(echo[None], out, 2.0, 3.4) > 25
