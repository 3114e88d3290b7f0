"""Recordings as sources: paced, looped, taken up again after a crash."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import soundfile
from capture_run import Run, as_killed, attach, read_frames

from cosyd.capture import Capture
from cosyd.capture.file import Recording
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, UnsupportedFormat
from cosyd.ring import RingWriter, WriterState, remove_ring
from cosyd.spec import AudioSpec, SampleFormat
from cosyd.types import DeviceOpened, GapRecorded, SourceEnded

RATE_HZ = 16_000
S16 = AudioSpec(RATE_HZ, 1, SampleFormat.S16)


@pytest.fixture
def ring(tmp_path):
    return tmp_path / "mic.ring"


def ramp(frames: int, channels: int = 1) -> np.ndarray:
    """Each frame has another value within 65,536, each channel the negative of the one before."""
    values = (np.arange(frames) % 30_000).astype(np.int16)
    return np.stack([values * (-1) ** c for c in range(channels)], axis=1)


def wav(tmp_path, samples: np.ndarray, name="speech.wav", rate_hz=RATE_HZ, **options):
    path = tmp_path / name
    soundfile.write(path, samples, rate_hz, **options)
    return path


def playing(path, ring, *, fresh: bool = False, **keys) -> Run:
    keys = {"realtime": False, "buffer_s": 2} | keys
    return Run(Capture(SourceConfig(type="file", path=str(path), **keys), ring, fresh=fresh).run)


def test_as_fast_as_it_is_read_and_nothing_is_lost(tmp_path, ring):
    samples = ramp(20 * RATE_HZ, channels=2)  # ten times the ring
    with playing(wav(tmp_path, samples), ring) as run, attach(ring, 0) as reader:
        heard = read_frames(reader, len(samples))
        assert run.wait_for(SourceEnded).sample == len(samples)
        run.until(lambda: not run.running)
        assert reader.writer is WriterState.CLOSED and reader.lost_frames == 0
        assert reader.read(1) is None
    np.testing.assert_array_equal(heard, samples)
    opened = run.wait_for(DeviceOpened)
    assert (opened.sample, opened.rate_hz, opened.channels, opened.format) == (0, RATE_HZ, 2, "s16")


@pytest.mark.parametrize("realtime", [False, True])
def test_after_the_end_a_late_reader_finds_the_rest_until_the_ring_is_removed(tmp_path, ring, realtime):
    samples = ramp(RATE_HZ // 4)
    with playing(wav(tmp_path, samples), ring, realtime=realtime) as run, attach(ring, 0):
        ended = run.wait_for(SourceEnded)
        run.until(lambda: not run.running)
    with attach(ring, 1_000) as late:
        np.testing.assert_array_equal(read_frames(late, len(samples)), samples[1_000:])
        assert late.writer is WriterState.CLOSED and late.position == ended.sample
    assert remove_ring(ring) and not ring.exists()


def test_stopped_before_its_end_it_leaves_no_ring(tmp_path, ring):
    with playing(wav(tmp_path, ramp(20 * RATE_HZ)), ring) as run:
        run.wait_for(DeviceOpened)
    assert not ring.exists()


def test_it_waits_for_a_reader_and_runs_no_more_than_a_quarter_ahead(tmp_path, ring):
    with playing(wav(tmp_path, ramp(20 * RATE_HZ)), ring) as run:
        run.wait_for(DeviceOpened)
        time.sleep(0.1)
        with attach(ring, 0) as reader:
            assert reader.write_index == 0
            run.until(lambda: reader.write_index > 0)
            time.sleep(0.2)
            assert 0 < reader.write_index <= reader.capacity // 4
            read_frames(reader, 100)
            assert reader.lost_frames == 0
        ahead = 0  # the reader has left: nothing more is written
        time.sleep(0.1)
        with attach(ring, 0) as late:
            ahead = late.write_index
        assert ahead <= late.capacity // 4 + 100 + RATE_HZ // 10


def test_in_real_time_by_an_absolute_schedule(tmp_path, ring):
    """Each block's time follows from its number: the clock of the file has no drift at all."""
    with playing(wav(tmp_path, ramp(RATE_HZ)), ring, realtime=True) as run, attach(ring, 0) as reader:
        began = time.monotonic()
        samples = read_frames(reader, RATE_HZ)
        took = time.monotonic() - began
        first, last = reader.time_ns(0), reader.time_ns(RATE_HZ - 1)
        reader.read(1)
        run.wait_for(SourceEnded)
    np.testing.assert_array_equal(samples, ramp(RATE_HZ))
    assert last - first == pytest.approx((RATE_HZ - 1) / RATE_HZ * 1e9, abs=2)
    assert took > 0.8


def test_a_stopped_process_leaves_out_what_it_slept_through(tmp_path, ring, monkeypatch):
    """SIGSTOP, or a machine that was suspended: catching up would lap every reader."""
    read, slept = Recording.read, threading.Event()

    def stopped_once(recording, frames):
        if slept.is_set():
            slept.clear()
            time.sleep(1.2)
        return read(recording, frames)

    monkeypatch.setattr(Recording, "read", stopped_once)
    with playing(wav(tmp_path, ramp(10 * RATE_HZ)), ring, realtime=True) as run, attach(ring, 0) as reader:
        read_frames(reader, 1_600)
        slept.set()
        gap = run.wait_for(GapRecorded)
        while (block := reader.read(1_600)) is None or not block.gap:
            reader.wait(1)
    assert gap.frames == pytest.approx(1.2 * RATE_HZ, abs=RATE_HZ)
    assert block.gap == gap.frames and block.index == gap.sample + gap.frames
    assert block.frames[0, 0] == block.index % 30_000  # the file went on with the clock


def test_looping(tmp_path, ring):
    samples = ramp(1_000)
    with playing(wav(tmp_path, samples), ring, loop=True) as run, attach(ring, 0) as reader:
        heard = read_frames(reader, 50_000)
        assert run.of(SourceEnded) == []
    np.testing.assert_array_equal(heard[:, 0], np.arange(50_000) % 1_000)


def left_over(ring, frames: int, t_ns: int | None = None, spec: AudioSpec = S16) -> None:
    """The ring of a capture process that was killed after ``frames`` frames."""
    writer = RingWriter.open(ring, spec, 2)
    writer.write(ramp(frames) if spec.format is SampleFormat.S16 else np.zeros((frames, 1), "f4"), t_ns)
    writer.close(unlink=False)
    as_killed(ring)


def test_after_a_crash_it_goes_on_exactly_where_it_stopped(tmp_path, ring):
    left_over(ring, 12_345)
    samples = ramp(3 * RATE_HZ)
    with playing(wav(tmp_path, samples), ring) as run:
        opened = run.wait_for(DeviceOpened)
        with attach(ring, 0) as reader:
            heard = read_frames(reader, len(samples))
    np.testing.assert_array_equal(heard, samples)
    assert opened.reopened and opened.sample == 12_345 and run.of(GapRecorded) == []


@pytest.mark.parametrize("loop", [False, True])
def test_after_a_crash_in_real_time_it_has_played_on_like_a_microphone(tmp_path, ring, loop):
    left_over(ring, 8_000, time.monotonic_ns() - 1_000_000_000)
    path = wav(tmp_path, ramp(40_000 if not loop else 6_000))
    with playing(path, ring, realtime=True, loop=loop) as run:
        gap = run.wait_for(GapRecorded)
        with attach(ring, 0) as reader:
            first = reader.read(10**6)
            while (after := reader.read(1_600)) is None:
                reader.wait(1)
    assert len(first.frames) == 8_000
    assert gap.sample == 8_000 and RATE_HZ <= gap.frames < 2 * RATE_HZ
    assert after.index == 8_000 + gap.frames
    assert after.frames[0, 0] == (after.index % 6_000 if loop else after.index)


def test_a_crash_longer_than_the_rest_of_the_file_ends_it(tmp_path, ring):
    left_over(ring, 8_000, time.monotonic_ns() - 60_000_000_000)
    with playing(wav(tmp_path, ramp(RATE_HZ)), ring, realtime=True) as run:
        assert run.wait_for(SourceEnded).sample == RATE_HZ
        assert run.of(GapRecorded) == [GapRecorded(8_000, 8_000)]


def test_killed_after_the_last_frame_it_only_has_to_end(tmp_path, ring):
    left_over(ring, 4_000)
    with playing(wav(tmp_path, ramp(4_000)), ring) as run:
        run.until(lambda: not run.running)
    assert run.wait_for(DeviceOpened).sample == run.wait_for(SourceEnded).sample == 4_000


def test_killed_after_the_end_it_says_so_again_and_plays_nothing(tmp_path, ring):
    left_over(ring, 4_000)
    RingWriter.open(ring, S16, 2).close(unlink=False)  # ended in good order
    with playing(wav(tmp_path, ramp(30_000)), ring) as run, attach(ring, 0) as reader:
        run.until(lambda: not run.running)
        assert run.events == [SourceEnded(4_000)]
        assert (reader.writer, reader.epoch, reader.write_index) == (WriterState.CLOSED, 2, 4_000)


@pytest.mark.parametrize("ended", [False, True])
def test_what_an_earlier_daemon_left_does_not_count(tmp_path, ring, ended):
    left_over(ring, 4_000)
    if ended:
        RingWriter.open(ring, S16, 2).close(unlink=False)
    samples = ramp(8_000)
    with playing(wav(tmp_path, samples), ring, fresh=True) as run:
        opened = run.wait_for(DeviceOpened)
        with attach(ring, 0) as reader:
            np.testing.assert_array_equal(read_frames(reader, len(samples)), samples)
            assert reader.epoch == 1
    assert (opened.sample, opened.reopened) == (0, False) and run.of(GapRecorded) == []


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("a.wav", {"subtype": "PCM_16"}, "s16"),
        ("a.flac", {"subtype": "PCM_16"}, "s16"),
        ("a.flac", {"subtype": "PCM_24"}, "s32"),
        ("a.wav", {"subtype": "PCM_32"}, "s32"),
        ("a.wav", {"subtype": "FLOAT"}, "f32"),
        ("a.wav", {"subtype": "DOUBLE"}, "f32"),
        ("a.aiff", {"subtype": "PCM_S8"}, "s16"),
        ("a.ogg", {"subtype": "VORBIS"}, "f32"),
        ("a.mp3", {}, "f32"),
    ],
)
def test_whatever_libsndfile_reads(tmp_path, ring, name, options, expected):
    tone = 0.5 * np.sin(2 * np.pi * 500 * np.arange(RATE_HZ) / RATE_HZ)
    with playing(wav(tmp_path, tone, name, **options), ring) as run, attach(ring, 0) as reader:
        opened = run.wait_for(DeviceOpened)
        heard = read_frames(reader, 8_000)[:, 0].astype(float)
    assert opened.format == expected
    full = {"s16": 2**15, "s32": 2**31, "f32": 1}[expected]
    spectrum = np.abs(np.fft.rfft(heard[1_600:8_000] / full)) / 3_200  # 200 whole periods
    assert np.argmax(spectrum) * RATE_HZ / 6_400 == 500
    assert spectrum.max() == pytest.approx(0.5, abs=0.05)  # MP3 loses 6 %


def test_mp3_is_taken_up_at_the_right_frame(tmp_path, ring):
    """Its seeks are not exact in libsndfile, and soundfile seeks behind our back."""
    noise = np.random.default_rng(1).uniform(-0.2, 0.2, 4 * RATE_HZ)
    path = wav(tmp_path, noise, "a.mp3")
    whole, _ = soundfile.read(path, dtype="float32")
    left_over(ring, 20_000, spec=AudioSpec(RATE_HZ, 1, SampleFormat.F32))
    with playing(path, ring) as run:
        run.wait_for(DeviceOpened)
        with attach(ring, 20_000) as reader:
            heard = read_frames(reader, len(whole) - 20_000)[:, 0]
    np.testing.assert_allclose(heard, whole[20_000:], atol=1e-6)


def test_no_numbers_become_silence_and_are_told(tmp_path, ring, caplog):
    samples = np.full(RATE_HZ, 0.25, np.float32)
    samples[100], samples[200], samples[300] = np.nan, np.inf, -np.inf
    path = wav(tmp_path, samples, subtype="FLOAT")
    with playing(path, ring) as run, attach(ring, 0) as reader:
        heard = read_frames(reader, RATE_HZ)[:, 0]
        reader.read(1)
        run.wait_for(SourceEnded)
    assert np.flatnonzero(heard == 0).tolist() == [100, 200, 300]
    assert np.all(np.isfinite(heard))
    assert [r.getMessage() for r in caplog.records if "no numbers" in r.getMessage()] == [
        f"{path}: 3 samples were no numbers and became silence"
    ]


def test_fewer_channels_and_another_format_on_demand(tmp_path, ring):
    samples = ramp(4_000, channels=3)
    with (
        playing(wav(tmp_path, samples), ring, channels=2, format="s24") as run,
        attach(ring, 0) as reader,
    ):
        heard = read_frames(reader, 4_000)
        assert run.wait_for(DeviceOpened).channels == 2
    assert heard.shape == (4_000, 2, 3)
    wide = np.zeros((*heard.shape[:2], 4), np.uint8)
    wide[..., 1:] = heard
    np.testing.assert_array_equal(wide.view("<i4")[..., 0] >> 16, samples[:, :2])


@pytest.mark.parametrize(
    ("make", "keys", "kind", "says"),
    [
        (None, {}, AudioError, "there is no file"),
        (b"this is no audio at all", {}, AudioError, "cannot be read as audio"),
        (0, {}, AudioError, "holds no audio"),
        (100, {"rate_hz": 48_000}, UnsupportedFormat, "has 16000 Hz, not 48000"),
        (100, {"channels": 2}, UnsupportedFormat, "has 1 channels, not 2"),
    ],
)
def test_what_cannot_work_is_said_at_once(tmp_path, ring, make, keys, kind, says):
    path = tmp_path / "speech.wav"
    if isinstance(make, bytes):
        path.write_bytes(make)
    elif make is not None:
        wav(tmp_path, ramp(make) if make else np.zeros((0, 1)))
    with pytest.raises(kind, match=says):
        Capture(SourceConfig(type="file", path=str(path), **keys), ring).run(
            threading.Event(), lambda event: None
        )
    assert not ring.exists()


def test_a_path_is_needed(ring):
    with pytest.raises(AudioError, match="has no path"):
        Capture(SourceConfig(type="file"), ring).run(threading.Event(), lambda event: None)
