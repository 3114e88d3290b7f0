"""How a ring ends: for readers, for views that outlive it, for descriptors."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ring_frames import MONO, ramp

from cosyd.errors import RingError, RingNotFound
from cosyd.ring import RingReader, RingWriter, WriterState, remove_ring


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
        assert reader.read(100, 1000) is None  # nothing will come: it does not wait for it
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
            lambda: reader.read(1, 10),
            lambda: reader.wait(0),
            lambda: reader.position,
            lambda: reader.writer,
            lambda: reader.time_ns(0),
        ):
            with pytest.raises(RingError, match="after it was closed"):
                use()
        assert writer.slowest_reader() is None


@pytest.mark.parametrize("wait", [lambda r: r.wait(100), lambda r: r.read(1, 100)], ids=["wait", "read"])
def test_close_ends_a_wait_in_another_thread(ring_path: Path, wait: Callable[[RingReader], object]) -> None:
    outcomes: list[object] = []

    def sleep(reader: RingReader) -> None:
        try:
            outcomes.append(wait(reader))
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


def test_blocks_come_until_the_writer_has_ended_and_all_is_read(ring_path: Path) -> None:
    with RingWriter.open(ring_path, MONO, 1.0) as writer, RingReader.attach(ring_path) as reader:
        writer.write(ramp(0, 250))
        blocks = reader.blocks(100, 0.001)
        lengths = [len(next(blocks).frames) for _ in range(3)]
        writer.write(ramp(250, 30))
        writer.close()
        assert [*lengths, *(len(block.frames) for block in blocks)] == [100, 100, 50, 30]
