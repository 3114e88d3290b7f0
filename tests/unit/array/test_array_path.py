"""The whole path of one stream: who is heard, what is let through, what is remembered."""

from __future__ import annotations

import numpy as np
import pytest
from array_waves import geometry, plane_wave, spectra_blocks, white
from numpy.typing import NDArray

from cosyd.array.geometry import wrap
from cosyd.array.make import make_path
from cosyd.array.path import ArrayPath
from cosyd.array.record import VoiceRecord
from cosyd.array.step import ArrayStep
from cosyd.array.zones import heard
from cosyd.config.schema import ArrayConfig, ZoneConfig
from cosyd.spec import FRAME
from cosyd.types import Voice

TAIL = 3 * FRAME.hop  # the denoiser's delay


def rows(name: str, azimuth: float, blocks: int = 40, seed: int = 0) -> NDArray[np.float32]:
    return plane_wave(geometry(name), white(blocks, seed), azimuth)


def through(
    path: ArrayPath, x: NDArray[np.float32], prob: float = 0.9
) -> tuple[NDArray[np.float32], list[tuple[Voice, ...]]]:
    """Every block is speech with ``prob``; nothing is known of its bins."""
    out, voices = [], []
    for block in spectra_blocks(x):
        mono = path.process(block)
        out.append(mono)
        voices.append(path.heard(mono, None, prob))
    return np.concatenate(out), voices


@pytest.mark.parametrize("beamformer", ["off", "delay-sum", "superdirective", "mvdr"])
def test_a_fixed_beam_gives_what_comes_from_there_after_its_delay(beamformer: str) -> None:
    config = ArrayConfig(geometry="square-4", beamformer=beamformer, steer="fixed", azimuth_deg=40.0)
    path = make_path(config)
    x = plane_wave(geometry("square-4"), white(20), 40.0)
    out, _ = through(path, x, prob=0.0)
    assert path.delay == (0 if beamformer == "off" else FRAME.hop)
    if beamformer != "off":  # as the first microphone hears it; windows are short
        error = out[path.delay :] - x[0, : -path.delay]
        assert 10 * np.log10(np.square(error[512:]).mean() / np.square(x[0]).mean()) < -22


def test_the_beam_finds_who_speaks_and_turns_there() -> None:
    path = make_path(ArrayConfig(geometry="square-4", beamformer="superdirective"), TAIL)
    x = plane_wave(geometry("square-4"), white(40), -75.0)
    out, voices = through(path, x)
    assert abs(wrap(voices[-1][0].azimuth_deg + 75.0)) < 2
    late = slice(20 * 512, 39 * 512)
    error = out[128:][late] - x[0, :-128][late]
    assert 10 * np.log10(np.square(error).mean() / np.square(x[0]).mean()) < -20


@pytest.mark.parametrize("beamformer", ["delay-sum", "superdirective", "mvdr"])
def test_a_voice_does_not_jump_when_the_beam_finds_it(beamformer: str) -> None:
    """From the first microphone to a beam that refers to it: no dip while the weights go over."""
    config = ArrayConfig(geometry="respeaker-6", beamformer=beamformer, reference_channels=())
    path = make_path(config, TAIL)
    x = plane_wave(geometry("respeaker-6"), white(30), -75.0)
    out, voices = through(path, x)
    assert voices[0] == () and voices[-1] != ()
    error = out[128:].reshape(-1, 128) - x[0, :-128].reshape(-1, 128)
    worst = np.square(error[8:-8]).mean(axis=1).max() / np.square(x[0]).mean()
    assert 10 * np.log10(worst) < -8  # half a turn of the phase of high bins alone would be above 0


def test_beside_a_loud_noise_from_one_place_the_voice_is_found() -> None:
    """A steady noise from 130 degrees, then a voice as loud from -20; no denoiser tells them apart."""
    array = geometry("square-4")
    noise = plane_wave(array, white(100, 7), 130.0)
    both = noise[:, 60 * 512 :] + plane_wave(array, white(40, 8), -20.0)
    path = make_path(ArrayConfig(geometry="square-4"), TAIL)
    through(path, noise[:, : 60 * 512], prob=0.0)
    _, voices = through(path, both)
    found = max(voices[-1], key=lambda voice: voice.conf)
    assert abs(wrap(found.azimuth_deg + 20.0)) < 5


def test_where_nobody_speaks_nobody_is_found() -> None:
    path = make_path(ArrayConfig(geometry="square-4"), TAIL)
    _, voices = through(path, rows("square-4", 30.0), prob=0.05)
    assert set(voices) == {()}


def test_the_same_comes_out_again_after_a_reset() -> None:
    path = make_path(ArrayConfig(geometry="square-4"), TAIL)
    x = rows("square-4", 100.0)
    first, _ = through(path, x)
    path.reset()
    again, _ = through(path, x)
    assert np.array_equal(first, again)


def test_a_voice_beside_a_noise_comes_out_clearer_and_undistorted() -> None:
    """SI-SDR against the voice at the first microphone: a scale is allowed, another phase is not."""
    array = geometry("square-4")
    noise = plane_wave(array, white(160, 7), 130.0)
    voice_alone = plane_wave(array, white(160, 8), -20.0)
    voice_alone[:, : 60 * 512] = 0
    path = make_path(ArrayConfig(geometry="square-4"), TAIL)
    through(path, noise[:, : 60 * 512], prob=0.0)
    out, _ = through(path, (noise + voice_alone)[:, 60 * 512 :])
    late = slice(40 * 512, 100 * 512)
    truth = voice_alone[0, 60 * 512 :]
    beam = si_sdr_db(out[128:][late], truth[:-128][late])
    alone = si_sdr_db((noise + voice_alone)[0, 60 * 512 :][late], truth[late])
    assert alone == pytest.approx(0.0, abs=0.2)
    assert beam > alone + 12


def si_sdr_db(estimate: NDArray[np.float32], truth: NDArray[np.float32]) -> float:
    part = (estimate @ truth) / (truth @ truth) * truth
    return float(10 * np.log10((part @ part) / np.square(estimate - part).sum()))


@pytest.mark.parametrize("name", ["square-4", "uma-8"])
def test_two_who_speak_at_once_are_both_followed(name: str) -> None:
    """By syllables one or the other is louder, by 8 dB."""
    array, blocks = geometry(name), 100
    seconds = np.arange(blocks * FRAME.block) / FRAME.rate_hz
    swing = (10 ** (4 * np.sin(2 * np.pi * 3 * seconds) / 20)).astype(np.float32)
    x = plane_wave(array, white(blocks, 1) * swing, 20.0) + plane_wave(array, white(blocks, 2) / swing, 110.0)
    _, told = through(make_path(ArrayConfig(geometry=name), TAIL), x)
    for azimuth in (20.0, 110.0):
        near = [
            any(abs(wrap(v.azimuth_deg - azimuth)) < 8 and v.conf > 0.3 for v in voices) for voices in told
        ]
        assert np.mean(near[30:]) > 0.5
    assert all(min(abs(wrap(v.azimuth_deg - a)) for a in (20.0, 110.0)) < 15 for v in told[-1])


def test_directions_are_the_room_s() -> None:
    path = make_path(ArrayConfig(geometry="square-4", orientation_deg=30.0, doa="3d"), TAIL)
    _, voices = through(path, rows("square-4", 0.0))
    assert abs(wrap(voices[-1][0].azimuth_deg - 30.0)) < 3
    assert voices[-1][0].elevation_deg is not None


def test_a_steady_noise_is_learned_and_suppressed() -> None:
    """The adaptive beam against the fixed one: a voice from 0, a noise from 130 degrees as loud."""
    noise = plane_wave(geometry("square-4"), white(120, 7), 130.0)
    level = {}
    for beamformer in ("superdirective", "mvdr"):
        path = make_path(
            ArrayConfig(geometry="square-4", beamformer=beamformer, steer="fixed", azimuth_deg=0.0), TAIL
        )
        out, _ = through(path, noise, prob=0.0)
        level[beamformer] = 10 * np.log10(np.square(out[-20 * 512 :]).mean())
    assert level["mvdr"] < level["superdirective"] - 6


def test_who_is_in_a_zone_to_be_ignored_is_told_of_but_not_looked_at() -> None:
    zones = (ZoneConfig(name="tv", from_deg=60.0, to_deg=120.0, listen=False),)
    ignored = make_path(ArrayConfig(geometry="uma-8", zones=zones), TAIL)
    followed = make_path(ArrayConfig(geometry="uma-8"), TAIL)
    x = plane_wave(geometry("uma-8"), white(80), 90.0)
    _, voices = through(ignored, x)
    assert voices[-1][0].zone == "tv"
    assert ignored._beam._direction is None
    through(followed, x)
    assert followed._beam._direction is not None


def test_zones_go_counter_clockwise_also_across_the_seam() -> None:
    back = ZoneConfig(name="back", from_deg=150.0, to_deg=-150.0, listen=False)
    desk = ZoneConfig(name="desk", from_deg=-30.0, to_deg=30.0)
    for azimuth, alone, both in ((180.0, False, False), (0.0, True, True), (90.0, True, False)):
        assert heard((back,), azimuth) is alone
        assert heard((back, desk), azimuth) is both


class Halves:
    """A step that takes the last row away and trails by a hop."""

    delay = FRAME.hop

    def __init__(self) -> None:
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    def process(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(block[:-1] * np.float32(0.5))


def test_steps_before_the_beam_get_references_too_and_their_delay_counts() -> None:
    step: ArrayStep = Halves()
    config = ArrayConfig(geometry="square-4", reference_channels=(4,), beamformer="off")
    path = ArrayPath(config, 0, (step,))
    assert path.rows == 5 and path.channels == (0, 1, 2, 3, 4)
    assert path.delay == FRAME.hop
    x = np.ones((5, FRAME.block), np.float32)
    assert path.process(x) == pytest.approx(np.full(FRAME.block, 0.5))
    path.reset()
    assert step.resets == 2  # when it was made, too


# --- what is remembered --------------------------------------------------------------------------------


def voice(track: int, azimuth: float, conf: float = 0.9) -> Voice:
    return Voice(track, azimuth, None, conf)


def test_an_utterance_has_the_direction_of_who_spoke_most_in_it() -> None:
    record = VoiceRecord(100, 16_000)
    for block in range(100):
        speaker = voice(1, 179.0 if block % 2 else -179.0) if block < 70 else voice(2, 40.0)
        record.note(block * 512, (speaker,))
    whole = record.between(0, 100 * 512)
    assert whole is not None
    assert (whole.track, abs(whole.azimuth_deg)) == (1, 180.0)
    assert whole.conf == pytest.approx(0.63)
    late = record.between(80 * 512, 100 * 512)
    assert late is not None and (late.track, late.azimuth_deg) == (2, 40.0)
    assert record.between(200 * 512, 300 * 512) is None


def test_a_voice_is_told_of_at_the_pace_that_is_asked_for() -> None:
    record = VoiceRecord(100, 16_000)
    told = [bool(record.note(block * 512, (voice(1, 0.0),))) for block in range(100)]
    assert told[0] and sum(told) == 25  # blocks of 32 ms: every fourth is 128 ms
    assert record.note(100 * 512, (voice(2, 0.0, conf=0.1),)) == ()
