"""Beside recognition: channels watched, speech levelled, what was heard kept in a ring and dumped."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from pipeline_fakes import START, running, silence, tone

from cosyd.config.schema import Config, SourceConfig
from cosyd.errors import AudioError
from cosyd.ring import RingReader, RingWriter
from cosyd.runtime.board import Board
from cosyd.runtime.channels import ChannelCheck, watched_channels
from cosyd.runtime.debug_tap import DebugTap, tap_path
from cosyd.runtime.dump import MOST_FILES, dump
from cosyd.runtime.ipc import ChannelsJudged, Heard
from cosyd.spec import FRAME, AudioSpec, SampleFormat

RATE = 16_000
FOUR = AudioSpec(RATE, 4, SampleFormat.S16)


@pytest.fixture
def ring_path(request: pytest.FixtureRequest) -> str:
    path = Path(f"/dev/shm/cosyd-test-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}.ring")
    yield str(path)
    assert not path.exists() and not tap_path(path).exists()


def four(seconds: float, dead: int | None = None) -> np.ndarray:
    frames = np.random.default_rng(1).integers(-900, 900, (round(seconds * RATE), 4), dtype=np.int16)
    if dead is not None:
        frames[:, dead] = 0
    return frames


# --- channels ---


def test_a_channel_that_dies_is_told_once_and_when_it_is_back(ring_path: str) -> None:
    with RingWriter.open(ring_path, FOUR, 40.0) as ring, running() as run:
        run.add(ring_path, START)
        for part in (four(2), four(9, dead=2), four(9)):
            ring.write(part)
            run.settle()
        told = [message.faults for message in run.of(ChannelsJudged)]
        assert told == [(), ("channel 2 is silent",), ()]  # the first judgement, and two changes
        assert any(heard.level.faults == ("channel 2 is silent",) for heard in run.of(Heard))
        assert run.of(Heard)[-1].level.faults == ()


def test_the_board_publishes_it_as_a_device_event() -> None:
    published = []
    board = Board(published.append, lambda name: None, "model")
    record = board.add(SourceConfig(name="mic"))
    board.judged(record, ChannelsJudged("mic", 77, ("channel 1 clips", "channel 2 is silent")))
    event = published[-1]
    assert (event.topic, event.event, event.sample) == ("device.mic", "channels", 77)
    assert event.reason == "channel 1 clips; channel 2 is silent"
    board.judged(record, ChannelsJudged("mic", 88, ("channel 1 clips", "channel 2 is silent")))
    assert published[-1] is event  # nothing new, as after a restart of the recogniser
    assert record.faults == ("channel 1 clips", "channel 2 is silent")


def test_a_driver_s_nan_is_survived() -> None:
    spec = AudioSpec(RATE, 4, SampleFormat.F32)
    array = Config.model_validate({"sources": [{"array": {"geometry": "square-4"}}]}).sources[0]
    check = ChannelCheck(array, spec)
    check.accept(np.full((RATE, 4), np.nan, np.float32))
    check.accept(np.full((4 * RATE, 4), np.inf, np.float32))
    assert check.faults == ()


def test_only_microphones_are_watched() -> None:
    six = AudioSpec(RATE, 6, SampleFormat.S16)
    assert watched_channels(SourceConfig(), six) == ((0, 1, 2, 3, 4, 5), None)
    assert watched_channels(SourceConfig(channel_map=(1, 9)), six)[0] == (1,)
    array = Config.model_validate({"sources": [{"array": {"geometry": "respeaker-4"}}]}).sources[0]
    channels, geometry = watched_channels(array, six)
    assert channels == (1, 2, 3, 4) and geometry is not None and geometry.references == (5,)


# --- the tap ---


def test_the_tap_lies_in_the_clock_of_the_source(tmp_path: Path) -> None:
    ring, block = tmp_path / "mic.ring", FRAME.block
    tap = DebugTap(ring, 48_000, 4.0)
    ramp = np.arange(4 * block, dtype=np.float32) / 1e4
    tap.write(30_000, ramp[:block], 0.25)
    tap.write(30_000 + 3 * block + 1, ramp[block : 2 * block], 0.5)  # rounded clocks: still the next block
    tap.write(30_000 + 12 * block, ramp[2 * block : 3 * block], 0.75)  # two blocks are missing
    tap.write(30_000, ramp[:block], 1.0)  # read again after a restart
    tap.flush()
    with RingReader.attach(tap_path(ring), position=10_000) as reader:
        first, second = reader.read(10_000), reader.read(10_000)
        assert first is not None and second is not None
        assert first.index == 10_000 and len(first.frames) == 2 * block
        assert np.array_equal(first.frames[:, 0], ramp[: 2 * block])
        assert set(first.frames[:, 1]) == {np.float32(0.25), np.float32(0.5)}
        assert second.index == 10_000 + 4 * block and second.gap == 2 * block
    tap.close()
    tap.close()
    assert not tap_path(ring).exists()


def test_a_tap_of_no_seconds_keeps_nothing(tmp_path: Path) -> None:
    tap = DebugTap(tmp_path / "mic.ring", RATE, 0)
    tap.write(0, np.zeros(FRAME.block, np.float32), 0.0)
    assert list(tmp_path.iterdir()) == []


# --- dumps ---


def test_a_dump_has_both_taps_of_the_last_seconds(ring_path: str, tmp_path: Path) -> None:
    spec = AudioSpec(RATE, 1, SampleFormat.S16)
    with RingWriter.open(ring_path, spec, 20.0) as ring, running() as run:
        run.add(ring_path, START)
        sound = np.concatenate([silence(1, RATE), tone(2, RATE), silence(2, RATE)])
        ring.write(sound)
        run.settle()
        raw, asr = dump("mic", Path(ring_path), tmp_path / "dumps", 3.0)
    read, _ = soundfile.read(raw, dtype="int16")
    assert np.array_equal(read, sound[2 * RATE :].ravel())
    facts = json.loads(Path(f"{raw}.json").read_text())
    assert facts["first_sample"] == 2 * RATE and facts["clock"]["source_sample"] == 5 * RATE
    heard, rate = soundfile.read(asr, dtype="float32")
    assert rate == RATE and heard.shape[1] == 2
    first = json.loads(Path(f"{asr}.json").read_text())["first_sample"]
    assert first <= 2 * RATE + FRAME.block and first + len(heard) >= 5 * RATE - 2 * FRAME.block


def test_old_dumps_go_and_names_never_collide(tmp_path: Path) -> None:
    spec = AudioSpec(RATE, 1, SampleFormat.S16)
    with RingWriter.open(tmp_path / "x.ring", spec, 2.0) as ring:
        with pytest.raises(AudioError, match="nothing yet"):
            dump("mic", tmp_path / "x.ring", tmp_path / "dumps", 1.0)
        ring.write(silence(1, RATE))
        made = [dump("mic", tmp_path / "x.ring", tmp_path / "dumps", 1.0)[0] for _ in range(MOST_FILES + 3)]
    assert len(set(made)) == MOST_FILES + 3
    kept = sorted((tmp_path / "dumps").iterdir())
    assert len(kept) == 2 * MOST_FILES and made[-1] in kept and made[0] not in kept


# --- gain ---


def test_the_recogniser_hears_speech_at_the_level(ring_path: str) -> None:
    """Quiet speech comes out of the tap louder; without gain control as it is."""
    spec, quiet = AudioSpec(RATE, 1, SampleFormat.S16), tone(6, RATE, 0.03)
    peaks = {}
    for agc in (False, True):
        frontend = {"denoise": "off", "remove_dc": False, "agc": agc}
        with RingWriter.open(ring_path, spec, 20.0) as ring, running(frontend=frontend) as run:
            run.add(ring_path, START)
            ring.write(quiet)
            run.settle()
            with RingReader.attach(tap_path(Path(ring_path)), position=4 * RATE) as reader:
                block = reader.read(RATE)
                assert block is not None
                peaks[agc] = float(np.abs(block.frames[:, 0]).max())
    assert peaks[True] > 2.5 * peaks[False]
