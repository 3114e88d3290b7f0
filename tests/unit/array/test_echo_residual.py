"""Suppression of residual echo, by itself: what it takes, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from echo_scene import RATE, Real, babble, decibels, hiss

from cosyd.array.echo_residual import ResidualSuppressor

HOP = 128
FLOOR_DB = -30.0


def suppressed(suppressor: ResidualSuppressor, error: Real, echo: Real) -> Real:
    """[n] of the filter's error and echo -> as much, beside the input but for the last hop."""
    none = np.zeros(HOP + 1, np.float32)
    pieces = [
        suppressor.process(error[None, at : at + 2 * HOP], echo[None, at : at + 2 * HOP], none)[0]
        for at in range(0, len(error) - 2 * HOP + 1, 2 * HOP)
    ]
    return np.concatenate(pieces)[HOP:]


def harmonics(echo: Real) -> Real:
    """What a loudspeaker that distorts adds to it."""
    return np.asarray(np.tanh(10 * echo) / 10 - echo, np.float32)


@pytest.mark.parametrize("distorts", [False, True])
def test_what_is_left_of_the_echo_is_pressed_down_while_nobody_speaks(distorts: bool) -> None:
    echo = babble(4, 1)
    left = harmonics(echo) if distorts else 0.1 * np.roll(echo, 37)
    out = suppressed(ResidualSuppressor(1, HOP, RATE, FLOOR_DB), left, echo)
    part = slice(2 * RATE, len(out))
    assert decibels(left[part], out[part]) > 12
    assert decibels(left[part], out[part]) < -FLOOR_DB + 1


@pytest.mark.parametrize("level", [1.0, 0.3])
def test_who_speaks_is_kept_from_the_first_sound_on(level: float) -> None:
    echo, near = babble(6, 1), babble(6, 7, level=0.08 * level)
    near[: 3 * RATE] = 0
    error = near + 0.03 * np.roll(echo, 37)
    suppressor = ResidualSuppressor(1, HOP, RATE, FLOOR_DB)
    out = suppressed(suppressor, error, echo)
    part = slice(3 * RATE, len(out))
    assert suppressor.somebody == 1
    assert decibels(near[part], out[part] - near[part]) > decibels(near[part], error[part] - near[part]) - 2
    onset = slice(3 * RATE, 3 * RATE + RATE // 10)
    assert decibels(near[onset], out[onset] - near[onset]) > 3


def test_who_has_spoken_is_waited_for_and_then_given_up() -> None:
    echo, near = babble(8, 1), babble(8, 7)
    near[: 2 * RATE] = near[4 * RATE :] = 0
    suppressor = ResidualSuppressor(1, HOP, RATE, FLOOR_DB)
    error = near + 0.03 * np.roll(echo, 37)
    told = []
    for at in range(0, len(error), 2 * HOP):
        piece = slice(at, at + 2 * HOP)
        if len(error[piece]) == 2 * HOP:
            suppressor.process(error[None, piece], echo[None, piece], np.zeros(HOP + 1, np.float32))
            told.append(suppressor.somebody)
    second = RATE // (2 * HOP)
    assert np.mean(told[2 * second + 10 : 4 * second]) > 0.7  # through the pauses between syllables too
    assert np.mean(told[5 * second + 20 :]) < 0.1


def test_where_there_is_no_echo_all_passes() -> None:
    near = babble(2, 3) + hiss((2 * RATE,))
    out = suppressed(ResidualSuppressor(1, HOP, RATE, FLOOR_DB), near, np.zeros_like(near))
    assert np.abs(out - near[: len(out)]).max() < 1e-6
