"""The least squares that an echo filter goes on from."""

from __future__ import annotations

import numpy as np
import pytest
from echo_scene import RATE, babble, decibels, hiss, room, through

from cosyd.array.echo_start import refined

TAPS = 2_048
DECAY = np.exp(-13.8 * np.arange(TAPS) / RATE / 0.4).astype(np.float32)
DECAY /= DECAY.sum()


@pytest.mark.parametrize("references", [1, 2])
def test_a_path_is_found_from_a_second_of_speech(references: int) -> None:
    played = np.stack([babble(1.2, 30 + index) for index in range(references)])
    rooms = [room(40 + index, rt60_s=0.1, mics=2) for index in range(references)]
    heard = np.sum([through(sound, paths) for sound, paths in zip(played, rooms, strict=True)], axis=0)
    heard = (heard + hiss(heard.shape)).astype(np.float32)[:, TAPS:]
    paths = np.zeros((2, references, TAPS), np.float32)
    shares = []
    for _ in range(4):
        paths, left = refined(paths, heard, played, DECAY)
        shares.append(left)
    assert shares[0] < 0.2 and max(shares) <= 1
    for index, true in enumerate(rooms):
        found = paths[:, index, : true.shape[1]]
        assert decibels(true, true - found) > 15


def test_what_is_no_echo_is_hardly_explained() -> None:
    heard, played = babble(1, 3)[None], babble(1, 4)[None]
    _, left = refined(np.zeros((1, 1, TAPS), np.float32), heard[:, TAPS:], played, DECAY)
    assert left > 0.5


def test_where_nothing_was_played_the_paths_stay() -> None:
    paths = np.random.default_rng(1).standard_normal((1, 2, TAPS)).astype(np.float32)
    better, left = refined(paths, hiss((1, 4_000)), np.zeros((2, TAPS + 4_000), np.float32), DECAY)
    assert np.array_equal(better, paths) and left == 1
    silent, left = refined(
        paths, np.zeros((1, 4_000), np.float32), babble(1, 3)[None, : TAPS + 4_000], 0 * DECAY
    )
    assert np.array_equal(silent, paths) and left == pytest.approx(1)
