"""Gains and delays of microphones are taken back, exactly as late as stated."""

from __future__ import annotations

import numpy as np
import pytest
from echo_scene import RATE, babble

from cosyd.array.echo import EchoCanceller
from cosyd.array.make import make_path
from cosyd.array.matching import Matching
from cosyd.config.schema import ArrayConfig
from cosyd.spec import FRAME


def shifted(sound: np.ndarray, samples: float) -> np.ndarray:
    """Exactly later by a fraction of a sample (circular)."""
    turns = np.exp(-2j * np.pi * np.fft.rfftfreq(len(sound)) * samples)
    return np.fft.irfft(np.fft.rfft(sound) * turns, len(sound)).astype(np.float32)


def low(sound: np.ndarray) -> np.ndarray:
    """Without what lies above 6.5 kHz, where the filters end."""
    spectrum = np.fft.rfft(sound)
    spectrum[np.fft.rfftfreq(len(sound), 1 / RATE) > 6_500] = 0
    return np.fft.irfft(spectrum, len(sound)).astype(np.float32)


def test_gains_alone_take_no_time() -> None:
    step = Matching(2, [6.0, -6.0], None)
    block = np.ones((3, FRAME.hop), np.float32)
    out = step.process(block)
    assert step.delay == 0
    assert np.allclose(out[:, 0], [10**0.3, 10**-0.3, 1])


@pytest.mark.parametrize("delays_us", [(0, 100, 31.25, -40), (500, 0, 0, 0)])
def test_late_channels_come_together_again(delays_us: tuple[float, ...]) -> None:
    sound = low(babble(1, 1))
    rows = [shifted(sound, delay * 1e-6 * RATE) for delay in delays_us]
    block = np.stack([*rows, sound])
    whole = block[:, : len(sound) // FRAME.hop * FRAME.hop]
    step = Matching(4, None, delays_us)
    out = np.concatenate(
        [step.process(whole[:, at : at + FRAME.hop]) for at in range(0, whole.shape[1], FRAME.hop)], axis=1
    )
    latest = shifted(sound, max(delays_us) * 1e-6 * RATE + step.delay)
    inner = slice(200, 15_000)
    for row in out[:4]:
        assert np.abs(row[inner] - latest[inner]).max() < 2e-3
    assert np.array_equal(out[4, step.delay :], whole[4, : whole.shape[1] - step.delay])


def test_reset_forgets_what_came_before() -> None:
    step, block = Matching(1, None, [0.0]), babble(0.1, 1)[None, : 4 * FRAME.hop]
    assert step.delay == 0
    step = Matching(2, None, [0.0, 20.0])
    rows = np.concatenate([block, block])
    first = step.process(rows)
    step.process(rows)
    step.reset()
    assert np.array_equal(step.process(rows), first)


def test_the_path_has_the_steps_that_are_configured() -> None:
    plain = make_path(ArrayConfig(geometry="square-4"))
    assert plain.rows == 4
    calibrated = make_path(ArrayConfig(geometry="square-4", delays_us=(0, 10, 0, 0)))
    assert calibrated.delay - plain.delay == 15
    quiet = make_path(ArrayConfig(geometry="respeaker-4", echo="off"))
    cancelling = make_path(ArrayConfig(geometry="respeaker-4"))
    assert cancelling.rows == quiet.rows == 5
    assert cancelling.delay - quiet.delay == EchoCanceller(4).delay == 256
