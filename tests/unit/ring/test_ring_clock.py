"""The ring's clock, its counters, and the callback that PortAudio is given."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import numpy as np
import pytest
from ring_frames import MONO, ramp

from cosyd.errors import RingError
from cosyd.ring import RingReader, RingWriter


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
