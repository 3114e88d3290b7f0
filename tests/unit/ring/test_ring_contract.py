"""The ring's promises one by one, in one process: formats, and what a reader gets."""

from __future__ import annotations

import mmap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from ring_frames import MONO, ramp, random_frames

from cosyd.errors import RingError
from cosyd.ring import RingReader, RingWriter, _ring
from cosyd.spec import AudioSpec, SampleFormat

SPECS = [AudioSpec(48_000, channels, format) for format in SampleFormat for channels in (1, 3, 8)]


# --- size and format -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_capacity_is_whole_pages_and_whole_frames(ring_path: Path, spec: AudioSpec) -> None:
    with RingWriter.open(ring_path, spec, 0.5) as writer:
        assert writer.capacity >= 24_000
        assert writer.capacity * spec.frame_bytes % mmap.PAGESIZE == 0
        assert ring_path.stat().st_mode & 0o777 == 0o640
        with RingReader.attach(ring_path) as reader:
            assert (reader.spec, reader.capacity, reader.epoch) == (spec, writer.capacity, 1)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_view_is_contiguous_across_the_wrap(ring_path: Path, spec: AudioSpec) -> None:
    with RingWriter.open(ring_path, spec, 0.01) as writer, RingReader.attach(ring_path) as reader:
        writer.skip(writer.capacity - 5)
        data = random_frames(spec, writer.capacity)
        assert writer.write(data) == writer.capacity
        block = reader.read(2 * writer.capacity)
        assert block is not None
        assert block.index % writer.capacity == writer.capacity - 5
        assert block.frames.tobytes() == data
        assert reader.intact(block)


def test_shape_and_type_of_frames(ring_path: Path) -> None:
    expected = {
        "s16": ("<i2", (4, 2)),
        "s24": ("u1", (4, 2, 3)),
        "s32": ("<i4", (4, 2)),
        "f32": ("<f4", (4, 2)),
    }
    for format in SampleFormat:
        spec = AudioSpec(8000, 2, format)
        with RingWriter.open(ring_path, spec, 1) as writer, RingReader.attach(ring_path) as reader:
            writer.write(bytes(4 * spec.frame_bytes))
            block = reader.read(100)
            assert block is not None
            assert (block.frames.dtype, block.frames.shape) == expected[format.value]
            assert not block.frames.flags.writeable


@pytest.mark.parametrize(
    "data", [b"123", np.zeros(4, "f4"), np.zeros(8, "i1")[::2], np.zeros(2, "i8"), "text", None]
)
def test_data_that_does_not_fit_is_refused(ring_path: Path, data: object) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer:
        with pytest.raises(RingError, match=str(ring_path)):
            writer.write(data)  # type: ignore[arg-type]
        assert writer.write_index == 0


@pytest.mark.parametrize(
    "data", [b"1234", bytearray(4), memoryview(b"1234"), np.zeros(2, "<i2"), np.zeros((2, 1), "<i2")]
)
def test_any_contiguous_buffer_of_the_format_is_taken(ring_path: Path, data: bytes) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer:
        assert writer.write(data) == 2


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        (AudioSpec(0, 1, SampleFormat.S16), 1),
        (AudioSpec(8000, 0, SampleFormat.S16), 1),
        (AudioSpec(8000, 5000, SampleFormat.S16), 1),
        (MONO, 0),
        (MONO, -1),
        (MONO, 1e9),
    ],
)
def test_impossible_sizes_are_refused(ring_path: Path, spec: AudioSpec, seconds: float) -> None:
    with pytest.raises(RingError, match="out of bounds"):
        RingWriter.open(ring_path, spec, seconds)


# --- what a reader gets --------------------------------------------------------------------------------


def test_blocks_never_span_a_gap(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer, RingReader.attach(ring_path) as reader:
        writer.write(ramp(0, 10))
        writer.skip(5)
        writer.skip(2)
        writer.write(ramp(17, 3))
        first, second = reader.read(100), reader.read(100)
        assert first is not None
        assert second is not None
        assert (first.index, first.end, first.gap, first.lost) == (0, 10, 0, 0)
        assert (second.index, second.end, second.gap, second.lost) == (17, 20, 7, 0)
        assert np.array_equal(second.frames, ramp(17, 3))
        assert reader.read(100) is None
        assert reader.lost_frames == 0


def test_gap_alone_is_nothing_to_read(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer, RingReader.attach(ring_path) as reader:
        writer.skip(5)
        assert not reader.wait(0.01)
        assert reader.read(10) is None
        assert reader.position == 5


def test_read_waits_where_it_may(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer, RingReader.attach(ring_path) as reader:
        assert reader.read(10, 0.01) is None
        writer.skip(5)
        assert reader.read(10, 0.01) is None  # a gap alone is nothing to read
        threading.Timer(0.05, writer.write, (ramp(5, 10),)).start()
        block = reader.read(100, 60)
        assert block is not None
        assert (block.index, block.gap) == (5, 5)
        assert np.array_equal(block.frames, ramp(5, 10))
        writer.write(ramp(15, 3))
        block = reader.read(2, 60)
        assert block is not None
        assert np.array_equal(block.frames, ramp(15, 2))


def test_gap_longer_than_the_ring_loses_only_what_was_audio(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 0.1) as writer, RingReader.attach(ring_path) as reader:
        writer.write(ramp(0, 100))
        writer.skip(10 * writer.capacity)
        writer.write(ramp(7, 30))
        block = reader.read(1000)
        assert block is not None
        assert (block.gap, block.lost) == (10 * writer.capacity, 100)
        assert np.array_equal(block.frames, ramp(7, 30))
        assert reader.lost_frames == 100


def test_lapped_reader_goes_on_with_the_oldest_frame(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 0.1) as writer, RingReader.attach(ring_path) as reader:
        for _ in range(3):
            writer.write(ramp(0, writer.capacity - 1))
        block = reader.read(10)
        assert block is not None
        assert block.index == block.lost == reader.lost_frames == 2 * writer.capacity - 3


def test_lapped_reader_that_leaps_has_time_before_it_is_lapped_again(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 0.1) as writer, RingReader.attach(ring_path, leap=500) as reader:
        writer.write(ramp(0, writer.capacity + 300))
        first = reader.read(100)
        assert first is not None
        assert (first.index, first.lost) == (800, 800)
        writer.write(ramp(0, 500))
        second = reader.read(100)
        assert second is not None
        assert (second.index, second.lost) == (900, 0)
        assert np.array_equal(second.frames, ramp(900, 100))
        assert reader.intact(second)
        assert reader.lost_frames == 800


def test_reader_that_leaps_is_given_all_that_is_left_when_the_writer_has_ended(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 0.1) as writer, RingReader.attach(ring_path, leap=500) as reader:
        writer.write(ramp(0, writer.capacity + 300))
        writer.close()
        block = reader.read(2 * writer.capacity)
        assert block is not None
        assert (block.index, block.lost, len(block.frames)) == (300, 300, writer.capacity)


def test_leap_is_at_most_half_the_ring_and_none_where_nothing_was_overwritten(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 0.1, start_index=9_000) as writer:
        writer.write(ramp(0, writer.capacity))
        with RingReader.attach(ring_path, position=0, leap=10**9) as reader:
            assert (reader.position, reader.lost_frames) == (9_000, 9_000)
            writer.write(ramp(0, 1))
            assert reader.wait(0)
            assert reader.position == 9_001 + writer.capacity // 2


def test_playing_writes_each_step_when_it_is_due(ring_path: Path) -> None:
    """Step by step, and the last one, which is shorter, with the time at which its last frame is due."""
    data = ramp(0, 1_000)
    seen: list[tuple[int, int]] = []
    with RingWriter.open(ring_path, MONO, 1.0) as writer, RingReader.attach(ring_path) as reader:
        begin_ns = time.monotonic_ns() + 10_000_000
        thread = threading.Thread(target=writer.play, args=(data, 300, begin_ns))
        thread.start()
        while sum(frames for frames, _ in seen) < len(data):
            reader.wait(1)
            block = reader.read(1_000)
            assert block is not None
            np.testing.assert_array_equal(block.frames, data[block.index : block.index + len(block.frames)])
            seen.append((len(block.frames), time.monotonic_ns() - begin_ns))
        thread.join()
        assert writer.last_write_ns == begin_ns + 1_000 * 1_000_000_000 // MONO.rate_hz
    done = 0
    for frames, after_ns in seen:
        done += frames
        assert done % 300 == 0 or done == len(data)
        assert after_ns >= done * 1_000_000_000 // MONO.rate_hz, "no step comes early"


def test_what_is_overdue_is_played_at_once_and_what_does_not_fit_is_refused(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1.0) as writer:
        begin_ns = time.monotonic_ns() - 10_000_000_000
        assert writer.play(ramp(0, 700), 512, begin_ns) == 700
        assert (writer.write_index, writer.last_write_ns) == (700, begin_ns + 43_750_000)
        with pytest.raises(RingError, match="cannot play 0 frames at a time"):
            writer.play(ramp(0, 700), 0, begin_ns)
        with pytest.raises(RingError, match="sample format"):
            writer.play(np.zeros((4, 1), np.float32), 2, begin_ns)
    with pytest.raises(RingError, match="closed"):
        writer.play(ramp(0, 2), 1, 0)


def test_write_longer_than_the_ring_keeps_its_end(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 0.1) as writer, RingReader.attach(ring_path) as reader:
        frames = 3 * writer.capacity + 17
        writer.write(ramp(0, frames))
        block = reader.read(frames)
        assert block is not None
        assert np.array_equal(block.frames, ramp(frames - writer.capacity, writer.capacity))


def test_overwritten_block_is_noticed_and_counted_once(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 0.1) as writer, RingReader.attach(ring_path) as reader:
        writer.write(ramp(0, 100))
        block = reader.read(100)
        assert block is not None
        writer.write(ramp(0, writer.capacity - 100))
        assert reader.intact(block)
        writer.write(ramp(0, 1))
        assert not reader.intact(block)
        assert not reader.intact(block)
        assert reader.lost_frames == 100
        following = reader.read(10)
        assert following is not None
        assert following.lost == 100


def test_attach_at_the_live_edge_late_early_and_ahead(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 0.1, start_index=1000) as writer:
        writer.write(ramp(0, writer.capacity + 50))
        end = 1000 + writer.capacity + 50
        expected = {
            None: (end, 0),
            end - 3: (end - 3, 0),
            0: (1050, 1050),
            1049: (1050, 1),
            end + 9: (end, 0),
        }
        for position, (found, lost) in expected.items():
            with RingReader.attach(ring_path, position=position) as reader:
                assert (reader.position, reader.lost_frames) == (found, lost)
        with pytest.raises(RingError, match="begins at 0"):
            RingReader.attach(ring_path, position=-1)


def test_forgotten_gaps_are_never_read_as_audio(ring_path: Path) -> None:
    gaps = 3 * _ring.VISIBLE_GAPS
    with RingWriter.open(ring_path, MONO, 1) as writer, RingReader.attach(ring_path) as reader:
        for at in range(gaps):
            writer.write(ramp(at, 2))
            writer.skip(3)
        writer.write(ramp(gaps, 2))
        with RingReader.attach(ring_path, position=0) as late:
            forgotten = gaps - _ring.VISIBLE_GAPS
            assert (late.position, late.lost_frames) == (5 * forgotten, 5 * forgotten)
        blocks = []
        while (block := reader.read(1000)) is not None:
            blocks.append(block)
        assert blocks[0].lost == reader.lost_frames == 2 * forgotten
        assert [int(block.frames[0, 0]) for block in blocks] == list(range(forgotten, gaps + 1))
        assert sum(block.gap for block in blocks) == 3 * gaps
