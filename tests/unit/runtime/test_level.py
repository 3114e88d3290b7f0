"""The level meter: what it says does not depend on how the audio comes, or on the format before."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.runtime.level import CLIP, HELD_S, LevelMeter
from cosyd.spec import FLOOR_DB, AudioSpec, SampleFormat
from cosyd.types import Level

SPEC = AudioSpec(16_000, 2, SampleFormat.S16)


def heard(frames: np.ndarray, period_ms: int, piece: int) -> list[Level]:
    meter = LevelMeter(period_ms)
    pieces = [(at, frames[at : at + piece]) for at in range(0, len(frames), piece)]
    told = [meter.accept(some, at, SPEC, 0.25) for at, some in pieces]
    return [level for level in told if level is not None]


def sound(seconds: float) -> np.ndarray:
    rng = np.random.default_rng(3)
    amplitude = np.array([3_000, 0])
    return (rng.standard_normal((SPEC.frames(seconds), 2)) * amplitude).round().astype(np.int16)


@pytest.mark.parametrize("period_ms", [200, round(3_000 * HELD_S)])
@pytest.mark.parametrize("piece", [100, 400, 1_600])
def test_pieces_do_not_matter(period_ms: int, piece: int) -> None:
    frames = sound(4)
    whole = heard(frames, period_ms, SPEC.frames(period_ms / 1000))
    assert heard(frames, period_ms, piece) == whole
    assert len(whole) == 4_000 // period_ms


def test_it_says_how_loud_each_channel_is() -> None:
    (level,) = heard(sound(0.2), 200, 400)
    assert level.sample == SPEC.frames(0.2)
    assert level.rms_db[0] == pytest.approx(20 * np.log10(3_000 / 2**15), abs=0.3)
    assert level.rms_db[1] == level.peak_db[1] == FLOOR_DB
    assert not level.clipped and level.vad_prob == 0.25


def test_one_sample_at_full_scale_is_clipping_wherever_it_is() -> None:
    for at in (0, 1_700, 3_199):
        frames = sound(0.2) // 4
        frames[at, 1] = round(CLIP * 2**15) + 1
        assert [level.clipped for level in heard(frames, 200, 160)] == [True]


def test_the_memory_of_frames_may_be_written_again() -> None:
    frames = sound(0.2)
    memory = frames.copy()
    meter = LevelMeter(200)
    assert meter.accept(memory[:1_600], 0, SPEC, 0.25) is None
    memory[:] = 0
    assert meter.accept(frames[1_600:], 1_600, SPEC, 0.25) == heard(frames, 200, 1_600)[0]


def test_a_period_of_nothing_measures_nothing() -> None:
    assert heard(sound(0.5), 0, 512) == []
