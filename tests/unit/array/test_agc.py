"""Gain control: to the level, not in pauses, never beyond full scale, without steps."""

from __future__ import annotations

import numpy as np
import pytest
from echo_scene import RATE, Real, babble, hiss

from cosyd.array.agc import PEAK, GainControl
from cosyd.spec import FRAME


def run(gain: GainControl, sound: Real, speech: float = 1.0) -> Real:
    blocks = sound[: len(sound) // FRAME.block * FRAME.block].reshape(-1, FRAME.block)
    return np.concatenate([gain.process(block, speech) for block in blocks])


def level_db(sound: Real) -> float:
    return float(10 * np.log10(np.mean(np.square(sound))))


@pytest.mark.parametrize("db", [-50, -35, -23, -12])
def test_speech_comes_to_the_level(db: float) -> None:
    out = run(GainControl(-23, 30), babble(8, 1, level=10 ** (db / 20)))
    assert level_db(out[5 * RATE :]) == pytest.approx(-23, abs=2)


def test_no_more_gain_than_allowed() -> None:
    gain = GainControl(-23, 10)
    run(gain, babble(6, 1, level=1e-3))
    assert gain.gain_db == pytest.approx(10)


def test_pauses_do_not_change_the_gain() -> None:
    gain = GainControl(-23, 30)
    run(gain, babble(6, 1, level=0.02))
    before = gain.gain_db
    run(gain, hiss((3 * RATE,), db=-70), speech=0.1)
    assert gain.gain_db == before


def test_nothing_exceeds_full_scale() -> None:
    gain = GainControl(-23, 30)
    run(gain, babble(6, 1, level=0.003))
    assert gain.gain_db > 20
    out = run(gain, np.clip(babble(1, 2, level=0.2), -0.9, 0.9))
    assert np.abs(out).max() <= PEAK * 1.0001


def test_the_gain_has_no_steps() -> None:
    """A constant shows the gain itself: from sample to sample it changes by next to nothing."""
    gain = GainControl(-6, 30)
    out = run(gain, np.full(4 * RATE, 0.01, np.float32))
    assert np.abs(np.diff(out)).max() < 0.01 * 0.02
    assert out[-1] > 0.1


def test_digital_silence_stays() -> None:
    assert not run(GainControl(-23, 30), np.zeros(RATE, np.float32)).any()


def test_reset_is_like_new() -> None:
    gain, sound = GainControl(-23, 30), babble(2, 1, level=0.01)
    first = run(gain, sound)
    gain.reset()
    assert np.array_equal(run(gain, sound), first)
