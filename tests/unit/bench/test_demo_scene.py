"""The demonstration's turns are cut where it is quiet, and a short recording is used up."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.bench.demo_scene import LONGEST_S, _cut
from cosyd.spec import FRAME


def test_a_turn_ends_in_the_pause() -> None:
    audio = np.random.default_rng(0).standard_normal(12 * FRAME.rate_hz).astype(np.float32)
    audio[5 * FRAME.rate_hz : 6 * FRAME.rate_hz] = 0
    assert 5.1 < _cut(audio) / FRAME.rate_hz < 5.9


@pytest.mark.parametrize("seconds", [0.0, 1.0, LONGEST_S])
def test_what_is_short_is_one_turn(seconds: float) -> None:
    length = round(seconds * FRAME.rate_hz)
    assert _cut(np.ones(length, np.float32)) == length
