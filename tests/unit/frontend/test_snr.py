"""How far speech stands out: against known levels, of noise that begins late, of many streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.frontend.snr import KNOWN_AFTER, LEAST_OF, UNKNOWN, SnrTracker
from cosyd.spec import FRAME

ALONE = np.zeros(1, np.intp)


def talk(snr_db: float, turns: int = 4, noise: float = 0.01, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Blocks [n, block] of noise, and in every second second louder noise as speech; their probabilities [n].

    ``snr_db`` is that of the speech's power over the noise's, the noise beneath it not counted.
    """
    rng = np.random.default_rng(seed)
    second = FRAME.blocks(1_000)
    prob = np.tile(np.repeat([0.01, 0.9], second), turns)
    speech = noise * 10 ** (snr_db / 20) * (prob > 0.5)
    x = rng.standard_normal((len(prob), FRAME.block)) * np.hypot(noise, speech)[:, None]
    return x.astype(np.float32), prob.astype(np.float32)


def follow(x: np.ndarray, prob: np.ndarray, together: int = 1) -> np.ndarray:
    tracker = SnrTracker(1)
    told = [
        tracker.follow(ALONE, x[i : i + together].reshape(1, -1), prob[None, i : i + together])[0]
        for i in range(0, len(x), together)
    ]
    return np.concatenate(told)


@pytest.mark.parametrize("snr_db", [0, 5, 10, 20, 40])
def test_the_ratio_is_that_of_the_powers(snr_db: float) -> None:
    told = follow(*talk(snr_db))
    expected = 10 * np.log10(1 + 10 ** (snr_db / 10))  # speech is heard with the noise beneath it
    np.testing.assert_allclose(told[-FRAME.blocks(1_000) :], expected, atol=0.3)


def test_nothing_is_told_before_half_a_second_of_speech() -> None:
    x, prob = talk(20)
    told = follow(x, prob)
    known = int(np.flatnonzero(np.cumsum(prob > 0.5) == KNOWN_AFTER)[0])
    assert (told[:known] == UNKNOWN).all()
    assert (told[known:][prob[known:] > 0.5] > 15).all() and (told[prob < 0.15] == UNKNOWN).all()


def test_noise_that_begins_while_somebody_speaks_is_noticed() -> None:
    x, prob = talk(30)
    spoken = np.flatnonzero(prob > 0.5)[-1] + 1
    rng = np.random.default_rng(1)
    loud = (rng.standard_normal((2 * LEAST_OF, FRAME.block)) * 0.4).astype(np.float32)
    told = follow(np.concatenate((x[:spoken], loud)), np.concatenate((prob[:spoken], np.ones(len(loud)))))
    assert told[spoken - 1] > 25
    assert told[spoken + LEAST_OF + 1] < 5


def test_silence_of_zeros_and_a_stream_of_zeros_are_finite() -> None:
    x, prob = talk(20, noise=0.0)
    assert follow(x, prob)[-1] == 0
    x[prob > 0.5] = 0.1
    told = follow(x, prob)
    assert np.isfinite(told[-1]) and told[-1] > 60


@settings(max_examples=20, deadline=None)
@given(together=st.integers(1, 8), seed=st.integers(0, 100))
def test_neither_blocks_at_once_nor_other_streams_change_a_bit(together: int, seed: int) -> None:
    streams = [talk(snr, seed=seed + i) for i, snr in enumerate((3, 12, 25))]
    tracker, slots = SnrTracker(5), np.array([4, 0, 2], np.intp)
    tracker.follow(slots, streams[0][0][:60].reshape(3, -1), np.full((3, 20), 0.9, np.float32))
    tracker.reset(slots)
    x, prob = (np.stack(parts) for parts in zip(*streams, strict=True))
    told = np.concatenate(
        [
            tracker.follow(slots, x[:, i : i + together].reshape(3, -1), prob[:, i : i + together])
            for i in range(0, x.shape[1], together)
        ],
        axis=1,
    )
    for row, (alone, alone_prob) in zip(told, streams, strict=True):
        np.testing.assert_array_equal(row, follow(alone, alone_prob))
