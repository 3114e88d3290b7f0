"""Scenes in the open air: what is written is where and when the truth says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cosyd.array.echo import EchoCanceller
from cosyd.array.geometry import Geometry, angles, wrap
from cosyd.array.locate import Locator
from cosyd.array.stft import Analysis
from cosyd.bench.scene import Channels, Room, Scene, Sound, render
from cosyd.bench.scene_echo import Loudspeaker
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


# --- an echo -------------------------------------------------------------------------------------------

ONE = Geometry(((0.0, 0.0, 0.0),), (0,), (1,))


def noise(seconds: float, seed: int) -> Channels:
    return np.random.default_rng(seed).standard_normal(round(seconds * FRAME.rate_hz)).astype(np.float32)


def test_what_is_played_is_in_the_reference_channel_and_its_echo_has_the_level_that_is_asked_for() -> None:
    loudspeaker = Loudspeaker(noise(1.5, 1), azimuth_deg=-70.0, echo_db=6.0)
    scene = render(GEOMETRY, OPEN_AIR, [sound(((0, 0.0),))], seconds=2.0, loudspeaker=loudspeaker)
    assert scene.frames.shape == (2 * FRAME.rate_hz, 6)
    assert np.array_equal(scene.frames[:, 5], scene.played)
    assert np.abs(scene.played).max() == pytest.approx(0.5)
    assert not scene.played[3 * FRAME.rate_hz // 2 :].any()
    second = slice(0, FRAME.rate_hz)
    level = np.square(scene.echo[second]).mean() / np.square(scene.target[second]).mean()
    assert 10 * np.log10(level) == pytest.approx(6, abs=0.3)
    rest = scene.frames[:, 1] - scene.target[:, 0] - scene.echo[:, 0]
    assert 10 * np.log10(np.square(rest).mean() / np.square(scene.target[second, 0]).mean()) < -28
    assert abs(wrap(azimuth(render_echo(loudspeaker).frames, 0.5) + 70.0)) < 1.5


def render_echo(loudspeaker: Loudspeaker) -> Scene:
    return render(GEOMETRY, OPEN_AIR, [], seconds=1.5, loudspeaker=loudspeaker)


def lag(scene: Scene, from_s: float) -> int:
    """Samples by which the echo trails what is played, in a fifth of a second."""
    part = slice(round(from_s * FRAME.rate_hz), round((from_s + 0.2) * FRAME.rate_hz))
    whole = np.correlate(scene.echo[part, 0], scene.played[part], "full")
    return int(np.abs(whole).argmax()) - (part.stop - part.start - 1)


def test_an_echo_is_late_jumps_and_drifts_as_it_is_told_to() -> None:
    at_once = lag(render(ONE, OPEN_AIR, [], seconds=1.0, loudspeaker=Loudspeaker(noise(1.0, 2))), 0.5)
    jumping = Loudspeaker(noise(2.0, 2), delay_ms=20, jump_ms=-10, jump_s=1.0)
    scene = render(ONE, OPEN_AIR, [], seconds=2.0, loudspeaker=jumping)
    assert (lag(scene, 0.5) - at_once, lag(scene, 1.5) - at_once) == (320, 160)
    drifting = Loudspeaker(noise(4.0, 2), delay_ms=20, drift_ppm=100)
    scene = render(ONE, OPEN_AIR, [], seconds=4.0, loudspeaker=drifting)
    assert lag(scene, 0.1) - lag(scene, 3.6) == pytest.approx(3.5 * FRAME.rate_hz * 1e-4, abs=1)


def test_the_canceller_takes_the_echo_of_a_scene_away() -> None:
    played = Loudspeaker(noise(4.0, 3), delay_ms=30)
    scene = render(ONE, Room(rt60_s=0.2), [], seconds=4.0, hum_snr_db=50, loudspeaker=played)
    canceller = EchoCanceller(1)
    rows = np.ascontiguousarray(scene.frames.T)
    whole = rows.shape[1] // FRAME.block * FRAME.block
    out = [canceller.process(rows[:, at : at + FRAME.block])[0] for at in range(0, whole, FRAME.block)]
    late = slice(2 * FRAME.rate_hz, None)
    left = np.square(np.concatenate(out)[late]).mean() / np.square(scene.echo[late, 0]).mean()
    assert 10 * np.log10(left) < -25


def test_the_truth_of_a_loudspeaker_and_what_it_plays_are_written_beside_the_scene(tmp_path: Path) -> None:
    scene = render(ONE, OPEN_AIR, [], seconds=1.0, loudspeaker=Loudspeaker(noise(1.0, 4), drift_ppm=-50.0))
    scene.write(tmp_path / "scene.wav")
    played, _ = soundfile.read(tmp_path / "scene-played.wav")
    assert np.abs(played - scene.played).max() < 1e-4
    truth = json.loads((tmp_path / "scene.json").read_text())
    assert (truth["talkers"], truth["loudspeaker"]["drift_ppm"]) == ([], -50.0)
