"""The ring's promises one by one, in one process."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import resource
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from cosyd.errors import RingBusy, RingError, RingFormatError, RingNotFound
from cosyd.ring import RingReader, RingWriter, WriterState, _ring, remove_ring
from cosyd.spec import AudioSpec, SampleFormat

MONO = AudioSpec(16_000, 1, SampleFormat.S16)
SPECS = [AudioSpec(48_000, channels, format) for format in SampleFormat for channels in (1, 3, 8)]


def ramp(first: int, frames: int) -> np.ndarray:
    """Mono frames that carry their own index."""
    return np.arange(first, first + frames).astype("<i2").reshape(-1, 1)


def random_frames(spec: AudioSpec, frames: int) -> bytes:
    return np.random.default_rng(1).bytes(frames * spec.frame_bytes)


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


# --- clock, counters, callback -------------------------------------------------------------------------


def test_sample_clock_maps_to_monotonic_time(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer, RingReader.attach(ring_path) as reader:
        assert writer.last_write_ns == 0
        writer.write(ramp(0, 160), t_ns=50_000_000_000)
        assert writer.last_write_ns == 50_000_000_000
        assert reader.time_ns(159) == 50_000_000_000
        assert reader.time_ns(0) == 50_000_000_000 - 159 * 62_500
        assert reader.time_ns(159 + 16_000 * 86_400 * 365) == 50_000_000_000 + 86_400 * 365 * 10**9
        before = time.monotonic_ns()
        writer.write(ramp(0, 160))
        assert before <= writer.last_write_ns <= time.monotonic_ns()


def test_armed_it_skips_exactly_what_was_missed_before_the_next_block(ring_path: Path) -> None:
    second, began = 1_000_000_000, 7_000_000_000
    with RingWriter.open(ring_path, MONO, 4) as writer, RingReader.attach(ring_path) as reader:
        assert writer.resumed is None
        writer.write(ramp(0, 100), began)
        writer.arm((100, began))
        assert writer.resumed is None
        assert writer.write(b"") == 0  # no frame has come yet
        writer.write(ramp(0, 160), began + 2 * second)
        assert writer.resumed == 100 + 32_000 - 160
        writer.write(ramp(160, 160), began + 9 * second)  # it is armed once
        first, after = reader.read(10_000), reader.read(10_000)
        assert first is not None
        assert after is not None
        assert (first.index, first.end, after.index) == (0, 100, 31_940)
        assert (after.gap, after.lost) == (31_840, 0)
        assert np.array_equal(after.frames, ramp(0, 320))
        assert (writer.write_index, writer.last_write_ns) == (32_260, began + 9 * second)


@pytest.mark.parametrize("anchor", [None, (10, 6_000_000_000), (10, 9_000_000_000)])
def test_armed_with_nothing_missed_it_goes_on_at_once(
    ring_path: Path, anchor: tuple[int, int] | None
) -> None:
    """No clock is known; a block longer than the pause; a block that was captured before the anchor."""
    with RingWriter.open(ring_path, MONO, 4) as writer:
        writer.write(ramp(0, 10), 6_000_000_000)
        writer.arm(anchor)
        writer.write(ramp(10, 16_001), 7_000_000_000)
        assert (writer.resumed, writer.write_index) == (10, 16_011)


def test_statistics_show_living_readers_and_counters(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer:
        assert writer.slowest_reader() is None
        writer.count_overrun()
        writer.count_overrun(7)
        with RingReader.attach(ring_path) as fast, RingReader.attach(ring_path):
            writer.write(ramp(0, 100))
            fast.read(60)
            assert writer.slowest_reader() == 0
            fast.read(60)
            statistics = writer.statistics()
            assert (statistics.write_index, statistics.overruns, statistics.overrun_frames) == (100, 2, 7)
            assert sorted(reader.position for reader in statistics.readers) == [0, 60]
            assert {reader.pid for reader in statistics.readers} == {os.getpid()}
        assert writer.slowest_reader() is None
        with pytest.raises(RingError, match="never goes back"):
            writer.skip(-1)


def test_block_in_use_holds_the_position_that_the_writer_sees(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer, RingReader.attach(ring_path) as reader:
        writer.write(ramp(0, 100))
        reader.read(100)
        assert writer.slowest_reader() == 0
        reader.wait(0)
        assert writer.slowest_reader() == 100


def portaudio_callback(writer: RingWriter) -> object:
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_void_p,
    )
    return prototype(writer.callback_address)


def test_portaudio_callback_writes_stamps_and_counts(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer, RingReader.attach(ring_path) as reader:
        call = portaudio_callback(writer)
        data = ramp(0, 160)
        address = data.ctypes.data
        assert call(address, None, 160, None, 0, writer.userdata_address) == 0  # type: ignore[operator]
        assert call(address, None, 160, None, 2, writer.userdata_address) == 0  # type: ignore[operator]
        assert call(None, None, 160, None, 1, writer.userdata_address) == 0  # type: ignore[operator]
        block = reader.read(1000)
        assert block is not None
        assert np.array_equal(block.frames, np.concatenate([data, data]))
        statistics = writer.statistics()
        assert (statistics.callbacks, statistics.overruns, statistics.write_index) == (3, 1, 320)
        assert writer.last_write_ns > 0
        writer.close()
        assert call(address, None, 160, None, 0, writer.userdata_address) == 2  # type: ignore[operator]
        assert writer.write_index == 320


def test_an_armed_callback_skips_until_its_own_first_frame(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer, RingReader.attach(ring_path) as reader:
        writer.write(ramp(0, 100))
        anchor = (100, writer.last_write_ns)
        writer.arm(anchor)
        time.sleep(0.05)
        call, data = portaudio_callback(writer), ramp(0, 160)
        assert call(data.ctypes.data, None, 160, None, 0, writer.userdata_address) == 0  # type: ignore[operator]
        due = 100 + (writer.last_write_ns - anchor[1]) * MONO.rate_hz // 1_000_000_000
        assert writer.write_index == due
        assert writer.resumed == due - 160 > 100
        assert reader.read(1_000) is not None
        after = reader.read(1_000)
        assert after is not None
        assert (after.index, after.gap) == (writer.resumed, writer.resumed - 100)


# --- ends ----------------------------------------------------------------------------------------------


def test_what_is_unread_and_whether_more_may_come_is_told(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1.0) as writer, RingReader.attach(ring_path, position=0) as reader:
        writer.write(ramp(0, 300))
        writer.skip(50)
        reader.read(100)
        assert (reader.unread, reader.open) == (250, True)
        writer.close()
        assert (reader.unread, reader.open) == (250, False)


def test_close_tells_readers_who_still_get_the_rest(ring_path: Path) -> None:
    writer = RingWriter.open(ring_path, MONO, 1)
    with RingReader.attach(ring_path) as reader:
        assert reader.writer is WriterState.LIVE
        writer.write(ramp(0, 10))
        writer.close()
        writer.close()
        assert not ring_path.exists()
        assert reader.wait(10)
        assert reader.writer is WriterState.CLOSED
        assert reader.read(100) is not None
        assert reader.wait(10)
        assert reader.read(100) is None
    for use in (lambda: writer.write(b"12"), lambda: writer.skip(1), lambda: writer.count_overrun()):
        with pytest.raises(RingError, match="after it was closed"):
            use()


def test_only_what_nobody_writes_is_removed(ring_path: Path, tmp_path: Path) -> None:
    assert not remove_ring(ring_path)
    with RingWriter.open(ring_path, MONO, 1) as writer:
        assert not remove_ring(ring_path)
        writer.write(ramp(0, 10))
        with RingReader.attach(ring_path, position=0) as reader:
            writer.close(unlink=False)
            with RingReader.attach(ring_path, position=0) as late:
                assert late.writer is WriterState.CLOSED
                assert (block := late.read(100)) is not None
                assert block.end == 10
            assert remove_ring(ring_path)
            assert not ring_path.exists()
            assert reader.writer is WriterState.CLOSED
            assert reader.read(100) is not None
    with pytest.raises(RingError, match="cannot be removed"):
        remove_ring(tmp_path)


def test_views_outlive_reader_and_writer(ring_path: Path) -> None:
    writer = RingWriter.open(ring_path, MONO, 1)
    reader = RingReader.attach(ring_path)
    writer.write(ramp(0, 1000))
    block = reader.read(1000)
    assert block is not None
    part = block.frames[500:]
    reader.close()
    reader.close()
    writer.close()
    assert reader.intact(block)
    del block, reader, writer
    gc.collect()
    assert np.array_equal(part, ramp(500, 500))
    assert mapped(ring_path)
    del part
    gc.collect()
    assert not mapped(ring_path)


def mapped(path: Path) -> bool:
    return (
        path.name in Path("/proc/self/maps").read_text()
        or "cosyd-test" in Path("/proc/self/maps").read_text()
    )


def test_closed_reader_refuses_use(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer:
        writer.write(ramp(0, 10))
        reader = RingReader.attach(ring_path, position=0)
        block = reader.read(5)
        assert block is not None
        reader.close()
        for use in (
            lambda: reader.read(1),
            lambda: reader.wait(0),
            lambda: reader.position,
            lambda: reader.writer,
            lambda: reader.time_ns(0),
        ):
            with pytest.raises(RingError, match="after it was closed"):
                use()
        assert writer.slowest_reader() is None


def test_close_ends_a_wait_in_another_thread(ring_path: Path) -> None:
    outcomes: list[object] = []

    def sleep(reader: RingReader) -> None:
        try:
            outcomes.append(reader.wait(100))
        except RingError as error:
            outcomes.append(str(error))

    with RingWriter.open(ring_path, MONO, 1) as writer:
        reader = RingReader.attach(ring_path)
        thread = threading.Thread(target=sleep, args=(reader,))
        thread.start()
        time.sleep(0.1)
        reader.close()
        thread.join(20)
        assert not thread.is_alive()
        assert len(outcomes) == 1
        assert "closed" in str(outcomes[0])
        assert writer.slowest_reader() is None


def test_no_descriptor_is_left(ring_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with RingWriter.open(ring_path, MONO, 1), RingReader.attach(ring_path):
            pass
        with pytest.raises(RingNotFound):
            RingReader.attach(ring_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# --- opening -------------------------------------------------------------------------------------------


def test_only_one_writer(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1) as writer:
        for seconds in (1, 2):
            with pytest.raises(RingBusy):
                RingWriter.open(ring_path, MONO, seconds)
        assert writer.write(ramp(0, 10)) == 10
        assert writer.epoch == 1


def test_left_over_is_adopted_with_clock_and_frames(ring_path: Path) -> None:
    first = RingWriter.open(ring_path, MONO, 1)
    first.write(ramp(0, 100), t_ns=77)
    first.close(unlink=False)
    reader = RingReader.attach(ring_path, position=0)
    with reader, RingWriter.open(ring_path, MONO, 1, start_index=5000) as second:
        assert (second.adopted, second.epoch, second.write_index, second.last_write_ns) == (
            True,
            2,
            100,
            77,
        )
        assert reader.writer is WriterState.LIVE
        second.skip(50)
        second.write(ramp(150, 10))
        blocks = [reader.read(1000), reader.read(1000)]
        assert [(block.index, block.end, block.gap) for block in blocks if block] == [
            (0, 100, 0),
            (150, 160, 50),
        ]
        assert reader.epoch == 2


def test_left_over_of_another_shape_is_replaced_and_its_readers_told(ring_path: Path) -> None:
    RingWriter.open(ring_path, MONO, 1).close(unlink=False)
    other = AudioSpec(48_000, 2, SampleFormat.F32)
    reader = RingReader.attach(ring_path)
    with reader, RingWriter.open(ring_path, other, 1, start_index=9) as writer:
        assert (writer.adopted, writer.epoch, writer.write_index) == (False, 1, 9)
        assert reader.wait(10)
        assert reader.writer is WriterState.REPLACED


def test_reader_notices_that_the_path_was_taken(ring_path: Path) -> None:
    old = RingWriter.open(ring_path, MONO, 1)
    with RingReader.attach(ring_path) as reader:
        ring_path.unlink()
        assert reader.writer is WriterState.LIVE
        with RingWriter.open(ring_path, MONO, 1):
            assert reader.writer is WriterState.REPLACED
            assert reader.wait(10)
            old.close()
            assert ring_path.exists()


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"x" * 100_000])
def test_other_file_is_refused_by_readers_and_replaced_by_a_writer(ring_path: Path, content: bytes) -> None:
    ring_path.write_bytes(content)
    with pytest.raises(RingFormatError, match="not a ring"):
        RingReader.attach(ring_path)
    with RingWriter.open(ring_path, MONO, 1) as writer:
        assert not writer.adopted


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (8, 99, "another version"),
        (12, 0, "not a ring"),
        (16, 2, "not a ring"),
        (28, 64, "not a ring"),
        (32, 7, "not a ring"),
    ],
)
def test_header_that_does_not_add_up_is_refused(
    ring_path: Path, offset: int, value: int, message: str
) -> None:
    RingWriter.open(ring_path, MONO, 1).close(unlink=False)
    with ring_path.open("r+b") as file:
        file.seek(offset)
        file.write(struct.pack("<I", value))
    with pytest.raises(RingFormatError, match=message):
        RingReader.attach(ring_path)
    ring_path.unlink()


def test_truncated_ring_is_refused(ring_path: Path) -> None:
    RingWriter.open(ring_path, MONO, 1).close(unlink=False)
    os.truncate(ring_path, ring_path.stat().st_size - 1)
    with pytest.raises(RingFormatError):
        RingReader.attach(ring_path)
    ring_path.unlink()


def test_missing_folder_and_folder_at_the_path(ring_path: Path) -> None:
    with pytest.raises(RingNotFound):
        RingReader.attach(ring_path / "x")
    with pytest.raises(RingError, match="create the directory"):
        RingWriter.open(ring_path / "x", MONO, 1)
    ring_path.mkdir()
    try:
        with pytest.raises(RingError):
            RingWriter.open(ring_path, MONO, 1)
    finally:
        ring_path.rmdir()


def test_memory_that_is_not_there_is_an_error_at_once(ring_path: Path) -> None:
    """A limit on file sizes stands for a full tmpfs: the memory is claimed when the ring is made."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(RingError, match="buffer_s"):
            RingWriter.open(ring_path, MONO, 60)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_slots_of_readers_are_limited_and_reused(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1):
        readers = [RingReader.attach(ring_path) for _ in range(_ring.MAX_READERS)]
        with pytest.raises(RingError, match="close one"):
            RingReader.attach(ring_path)
        readers.pop().close()
        readers.append(RingReader.attach(ring_path))
        for reader in readers:
            reader.close()
