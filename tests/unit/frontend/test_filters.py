"""DC removal against the recursion it stands for, and the delay line."""

from __future__ import annotations

import numpy as np
from scipy import signal

from cosyd.frontend.filters import DC_CORNER_HZ, DcRemoval, Delay
from cosyd.spec import FRAME


def through(stage: DcRemoval | Delay, x: np.ndarray, slot: int = 0) -> np.ndarray:
    slots = np.array([slot], np.intp)
    return np.concatenate([stage.process(slots, b[None])[0] for b in x.reshape(-1, FRAME.block)])


def noise(blocks: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(blocks * FRAME.block).astype(np.float32)


def test_dc_removal_is_the_recursion_in_float64() -> None:
    x = noise(40)
    pole = np.exp(-2 * np.pi * DC_CORNER_HZ / FRAME.rate_hz)
    expected, _ = signal.lfilter([1, -1], [1, -pole], x.astype(np.float64), zi=[-x[0]])
    np.testing.assert_allclose(through(DcRemoval(1), x), expected, atol=2e-5)


def test_a_constant_is_gone_at_once_and_a_late_step_decays() -> None:
    assert np.abs(through(DcRemoval(1), np.full(2048, 0.5, np.float32))).max() == 0
    step = np.concatenate([np.zeros(1024), np.full(15_360, 0.5)]).astype(np.float32)
    assert np.abs(through(DcRemoval(1), step)[-512:]).max() < 1e-6


def test_silence_after_sound_becomes_exactly_nothing() -> None:
    """Else the remainder would shrink into denormal numbers, and stay there for ever, slowing everything."""
    x = np.concatenate([noise(1), np.zeros(60 * 512, np.float32)])
    assert np.all(through(DcRemoval(1), x)[-512:] == 0)


def test_dc_removal_leaves_speech_alone() -> None:
    """From 100 Hz on the level changes by less than 0.2 dB."""
    for frequency in (100, 1000, 7000):
        x = np.sin(2 * np.pi * frequency * np.arange(32 * 512) / 16_000).astype(np.float32)
        out = through(DcRemoval(1), x)[4096:]
        assert abs(10 * np.log10(2 * np.mean(out.astype(float) ** 2))) < 0.2


def test_delay_gives_back_the_input_later() -> None:
    x = noise(6)
    out = through(Delay(1, 384), x)
    assert np.all(out[:384] == 0)
    np.testing.assert_array_equal(out[384:], x[:-384])


def test_streams_do_not_touch_each_other_and_reset_is_complete() -> None:
    for stage in (DcRemoval(3), Delay(3, 384)):
        alone = through(stage, noise(8, 7), slot=2)
        stage.reset(np.arange(3))
        x = np.stack([noise(8, 5), noise(8, 7)]).reshape(2, 8, 512)
        together = np.concatenate([stage.process(np.array([0, 2]), x[:, k])[1] for k in range(8)])
        np.testing.assert_array_equal(together, alone)


def test_how_many_blocks_come_at_once_changes_no_bit() -> None:
    slots = np.array([1, 0])
    x = np.stack([noise(20, 3), noise(20, 4) + 0.5])
    for stage in (DcRemoval(2), Delay(2, 384)):
        stage.reset(slots)
        one = [stage.process(slots, x[:, at : at + 512]) for at in range(0, x.shape[1], 512)]
        stage.reset(slots)
        several = [stage.process(slots, part) for part in np.split(x, [3 * 512, 4 * 512, 12 * 512], axis=1)]
        np.testing.assert_array_equal(np.concatenate(several, axis=1), np.concatenate(one, axis=1))
