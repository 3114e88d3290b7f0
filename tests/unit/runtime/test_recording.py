"""Recordings: exact, gaps filled, time told; raw from a ring and what the front end makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from front_end_fakes import BlockByBlock

from cosyd.config.schema import FrontendConfig
from cosyd.errors import AudioError
from cosyd.frontend.front_end import FrontEnd
from cosyd.frontend.stage import Samples, Slots
from cosyd.ring import RingReader, RingWriter
from cosyd.runtime.recording import FILL_MOST_S, HEARD, Piece, Recorder, clock, heard_pieces, raw_pieces
from cosyd.spec import AudioSpec, SampleFormat
from cosyd.types import Backend

STEREO = AudioSpec(16_000, 2, SampleFormat.S16)


def counted(first: int, count: int) -> np.ndarray:
    """Frames that say which they are."""
    index = np.arange(first, first + count) % 30_000
    return np.stack([index, -index], axis=1).astype(np.int16)


def recorded(path: Path) -> tuple[np.ndarray, dict]:
    sound, _ = soundfile.read(path, dtype="int16", always_2d=True)
    return sound, json.loads(path.with_name(path.name + ".json").read_text())


def test_pieces_lie_where_they_belong(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with Recorder(path, STEREO, {"source": "mic"}) as recorder:
        recorder.write(Piece(1000, counted(1000, 500)))
        recorder.write(Piece(1700, counted(1700, 300)))  # 200 are missing
        recorder.write(Piece(1900, counted(1900, 200)))  # 100 are there already
        recorder.write(Piece(1950, counted(1950, 20)))  # all of it is
    sound, facts = recorded(path)
    right = counted(1000, 1100)
    right[500:700] = 0
    assert np.array_equal(sound, right)
    assert facts["first_sample"] == 1000 and facts["frames"] == 1100 and facts["source"] == "mic"
    assert facts["filled"] == [{"frame": 500, "frames": 200}]


def test_a_very_long_absence_ends_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with Recorder(path, STEREO, {}) as recorder:
        recorder.write(Piece(0, counted(0, 100)))
        with pytest.raises(AudioError, match="the recording ends there"):
            recorder.write(Piece(round((FILL_MOST_S + 1) * 16_000), counted(0, 100)))
    sound, _ = recorded(path)
    assert len(sound) == 100


def test_raw_from_a_ring_with_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "raw.wav"
    with RingWriter.open(tmp_path / "x.ring", STEREO, 4.0) as writer:
        reader = RingReader.attach(writer.path, position=0)
        writer.write(counted(0, 3000))
        writer.skip(400)
        writer.write(counted(3400, 5000))
        writer.close(unlink=False)
        with reader, Recorder(path, STEREO, {}) as recorder:
            for piece in raw_pieces(reader, None):
                recorder.write(piece)
            recorder.about["clock"] = clock(reader, 8000)
    sound, facts = recorded(path)
    right = counted(0, 8400)
    right[3000:3400] = 0
    assert np.array_equal(sound, right)
    assert facts["filled"] == [{"frame": 3000, "frames": 400}]
    assert facts["clock"]["source_sample"] == 8000 and facts["clock"]["t_mono_ns"] > 0


def test_as_many_seconds_as_asked_for(tmp_path: Path) -> None:
    with RingWriter.open(tmp_path / "x.ring", STEREO, 4.0) as writer:
        with RingReader.attach(writer.path, position=0) as reader:
            writer.write(counted(0, 30_000))
            pieces = list(raw_pieces(reader, 1.5))
            assert sum(len(piece.frames) for piece in pieces) == 24_000
        with RingReader.attach(writer.path, position=0) as reader:
            assert sum(len(piece.frames) for piece in raw_pieces(reader, None, until=10_001)) == 10_001


class _Nobody(BlockByBlock):
    """A VAD that hears nothing."""

    delay = 0
    backend = Backend("none", "a test")

    def reset(self, slots: Slots) -> None: ...

    def process(self, slots: Slots, x: Samples) -> Samples:
        return np.zeros(len(x), np.float32)


@pytest.mark.parametrize("rate_hz", [16_000, 44_100, 48_000])
def test_what_is_heard_has_the_clock_of_the_source(tmp_path: Path, rate_hz: int) -> None:
    """A tone with a gap: as many samples come out as time went by, each where it belongs."""
    spec, path = AudioSpec(rate_hz, 1, SampleFormat.F32), tmp_path / "mono.wav"
    tone = (0.5 * np.sin(2 * np.pi * 440 / rate_hz * np.arange(2 * rate_hz))).astype(np.float32)[:, None]
    config = FrontendConfig(denoise="off", asr_input="raw", remove_dc=False)
    front_end = FrontEnd(config, _Nobody(), None, 1)
    slot = front_end.open(spec)
    with RingWriter.open(tmp_path / "x.ring", spec, 4.0) as writer:
        reader = RingReader.attach(writer.path, position=0)
        writer.write(tone[: rate_hz // 2])
        writer.skip(rate_hz // 4)
        writer.write(tone[3 * rate_hz // 4 :])
        writer.close(unlink=False)
        with reader, Recorder(path, HEARD, {}) as recorder:
            for piece in heard_pieces(reader, front_end, slot, None):
                recorder.write(piece)
    sound, _ = soundfile.read(path, dtype="float32")
    assert len(sound) == 32_000
    right = 0.5 * np.sin(2 * np.pi * 440 / 16_000 * np.arange(32_000))
    assert not sound[8_100:11_900].any()
    for part in (slice(200, 7_800), slice(12_200, 31_800)):
        assert np.abs(sound[part] - right[part]).max() < 0.01
