"""Scenes in the open air: what is written is where and when the truth says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cosyd.array.geometry import Geometry, angles, wrap
from cosyd.array.locate import Locator
from cosyd.array.stft import Analysis
from cosyd.bench.scene import Channels, Room, Sound, render
from cosyd.config.schema import ArrayConfig
from cosyd.spec import FRAME

GEOMETRY = Geometry.of(ArrayConfig(geometry="respeaker-4"))
OPEN_AIR = Room(rt60_s=0.0)


def sound(path: tuple[tuple[float, float], ...], seconds: float = 1.0, **more: object) -> Sound:
    audio = np.random.default_rng(0).standard_normal(round(seconds * FRAME.rate_hz)).astype(np.float32)
    return Sound(audio, path, **more)  # type: ignore[arg-type]


def azimuth(frames: Channels, second: float) -> float:
    first = round(second * FRAME.rate_hz)
    piece = frames[first : first + 8 * FRAME.block, list(GEOMETRY.channels)]
    locator = Locator(GEOMETRY, space=False, talkers=1)
    power = locator.average(Analysis(4)(np.ascontiguousarray(piece.T)))
    return angles(locator.peaks(power)[0].direction)[0]


def test_a_talker_is_heard_from_where_the_truth_says_and_only_then() -> None:
    scene = render(GEOMETRY, OPEN_AIR, [sound(((0, 115.0),), start_s=0.5)], seconds=2.0, channels=6)
    assert scene.frames.shape == (2 * FRAME.rate_hz, 6)
    assert not scene.frames[:, [0, 5]].any()  # the device's own mix, and what it plays
    assert abs(wrap(azimuth(scene.frames, 0.8) - 115.0)) < 1.5
    before, during = (
        scene.frames[: FRAME.rate_hz // 3, 1],
        scene.frames[FRAME.rate_hz : 4 * FRAME.rate_hz // 3, 1],
    )
    assert 10 * np.log10(np.square(before).mean() / np.square(during).mean()) == pytest.approx(-30, abs=2)


def test_a_talker_who_walks_is_where_the_path_says() -> None:
    scene = render(GEOMETRY, OPEN_AIR, [sound(((0, -60.0), (4.0, 60.0)), seconds=4.0)])
    truth = scene.truth[0]
    for second in (0.5, 2.0, 3.4):
        middle = second + 4 * FRAME.block / FRAME.rate_hz
        assert abs(truth.azimuths[round(middle / truth.step_s)] - (-60 + 30 * middle)) < 2
        assert abs(wrap(azimuth(scene.frames, second) - (-60 + 30 * middle))) < 4


def test_noise_from_a_place_has_the_level_that_is_asked_for() -> None:
    talker, noise = sound(((0, 0.0),)), sound(((0, 90.0),), seconds=1.5)
    alone = render(GEOMETRY, OPEN_AIR, [talker], seconds=1.5, hum_snr_db=60)
    mixed = render(GEOMETRY, OPEN_AIR, [talker], [noise], seconds=1.5, snr_db=5, hum_snr_db=60)
    assert alone.target.shape == mixed.target.shape
    rest = mixed.frames[:, 1] - mixed.target[:, 0]
    speech = np.square(mixed.target[: FRAME.rate_hz, 0]).mean()
    assert 10 * np.log10(speech / np.square(rest).mean()) == pytest.approx(5, abs=0.5)


def test_the_file_and_the_truth_beside_it(tmp_path: Path) -> None:
    scene = render(GEOMETRY, OPEN_AIR, [sound(((0, 10.0),), text="hello", name="ann")])
    scene.write(tmp_path / "scene.wav")
    frames, rate_hz = soundfile.read(tmp_path / "scene.wav")
    assert (rate_hz, frames.shape) == (FRAME.rate_hz, scene.frames.shape)
    truth = json.loads((tmp_path / "scene.json").read_text())["talkers"][0]
    assert (truth["name"], truth["text"], truth["azimuths"][0]) == ("ann", "hello", 10.0)
