"""Opening a ring: one writer, what an earlier one has left, what is no ring at all."""

from __future__ import annotations

import os
import resource
import struct
from pathlib import Path

import pytest
from ring_frames import MONO, ramp

from cosyd.errors import RingBusy, RingError, RingFormatError, RingNotFound
from cosyd.ring import RingReader, RingWriter, WriterState, _ring
from cosyd.spec import AudioSpec, SampleFormat


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
