"""The ring between processes: hammered, woken, and killed on either side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest
import ring_peers as peers
from ring_peers import BUFFER_S, SPEC, Tally, frames_at

from cosyd.errors import RingBusy
from cosyd.ring import RingReader, RingWriter, WriterState

HAMMER_FRAMES = 10_000_000
BLOCK = 4000
PATIENCE_S = 60  # only so that a broken ring ends the test


@contextmanager
def peer(target: Callable[..., None], *arguments: object) -> Iterator[tuple[SpawnProcess, Connection]]:
    """A process with a pipe; killed and reaped at the end, whatever happened."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    path, *rest = arguments
    process = context.Process(target=target, args=(path, there, *rest))
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        process.kill()
        process.join()
        process.close()
        here.close()


def answer(pipe: Connection) -> object:
    assert pipe.poll(PATIENCE_S), "the other process says nothing"
    return pipe.recv()


def kill(process: SpawnProcess) -> None:
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()


@pytest.fixture
def writer(ring_path: Path) -> Iterator[RingWriter]:
    with RingWriter.open(ring_path, SPEC, BUFFER_S) as writer:
        yield writer


# --- hammer --------------------------------------------------------------------------------------------


def test_every_frame_arrives_when_the_writer_heeds_its_reader(writer: RingWriter, ring_path: Path) -> None:
    with peer(peers.read_to_the_end, ring_path, 4800, 0.0) as (_, pipe):
        assert answer(pipe) == "attached"
        total = 0
        for index in range(0, HAMMER_FRAMES, BLOCK):
            frames = frames_at(index, BLOCK)
            total += peers.checksum(frames)
            while index + BLOCK - (writer.slowest_reader() or 0) > writer.capacity:
                time.sleep(0.0002)
            writer.write(frames)
        writer.close()
        tally, lost, position = answer(pipe)  # type: ignore[misc]
    assert tally == Tally(received=HAMMER_FRAMES, checksum=total)
    assert (lost, position) == (0, HAMMER_FRAMES)


def test_what_a_slow_reader_lost_adds_up_exactly(writer: RingWriter, ring_path: Path) -> None:
    gap = 0
    with peer(peers.read_to_the_end, ring_path, 3000, 0.001) as (_, pipe):
        assert answer(pipe) == "attached"
        for turn in range(HAMMER_FRAMES // BLOCK):
            writer.write(frames_at(writer.write_index, BLOCK))
            if turn % 50 == 0:
                writer.skip(turn + 1)
                gap += turn + 1
            if turn % 100 == 0:
                time.sleep(0.002)
        written = writer.write_index
        writer.close()
        tally, lost, position = answer(pipe)  # type: ignore[misc]
    assert tally.wrong == 0
    assert position == written == HAMMER_FRAMES + gap
    assert tally.received > 0
    assert lost > 0
    assert tally.received + lost + gap == written


# --- waking --------------------------------------------------------------------------------------------


def test_every_write_wakes_a_sleeping_reader(writer: RingWriter, ring_path: Path) -> None:
    rounds = 300
    with peer(peers.answer_each_frame, ring_path, rounds) as (_, pipe):
        assert answer(pipe) == "attached"
        for index in range(rounds):
            if index % 3 == 0:
                time.sleep(0.001)  # now it sleeps; in the other rounds it may be anywhere
            writer.write(frames_at(index, 1))
            assert answer(pipe) == index


def test_a_signal_comes_through_a_wait(ring_path: Path) -> None:
    with (
        RingWriter.open(ring_path, SPEC, BUFFER_S),
        peer(peers.wait_for_signal, ring_path) as (process, pipe),
    ):
        for _ in range(2):
            answer(pipe)
            time.sleep(0.1)
            os.kill(process.pid or 0, signal.SIGINT)
            assert answer(pipe) == "interrupted"


# --- kill -9 -------------------------------------------------------------------------------------------


def test_killed_writer_is_noticed_and_its_ring_adopted(ring_path: Path) -> None:
    with ExitStack() as stack:
        process, pipe = stack.enter_context(peer(peers.hold_open, ring_path))
        answer(pipe)
        reader = stack.enter_context(RingReader.attach(ring_path, position=0))
        assert reader.read(1000) is not None
        assert reader.writer is WriterState.LIVE
        os.kill(process.pid or 0, signal.SIGKILL)
        assert reader.wait(PATIENCE_S)  # nobody wakes it
        assert reader.writer is WriterState.DEAD
        assert reader.read(1000) is None
        process.join()
        writer = stack.enter_context(RingWriter.open(ring_path, SPEC, BUFFER_S))
        assert (writer.adopted, writer.epoch, writer.write_index) == (True, 2, 100)
        assert reader.writer is WriterState.LIVE
        writer.skip(10)
        writer.write(frames_at(110, 5))
        block = reader.read(1000)
        assert block is not None
        assert (block.index, block.gap, block.lost) == (110, 10, 0)


def test_writer_that_is_dead_but_not_reaped_counts_as_dead(ring_path: Path) -> None:
    with peer(peers.hold_open, ring_path) as (process, pipe):
        answer(pipe)
        with RingReader.attach(ring_path) as reader:
            os.kill(process.pid or 0, signal.SIGKILL)
            os.waitid(os.P_PID, process.pid or 0, os.WEXITED | os.WNOWAIT)  # a zombie from here on
            assert reader.writer is WriterState.DEAD
            with RingWriter.open(ring_path, SPEC, BUFFER_S) as writer:
                assert writer.adopted


def test_reused_pid_does_not_count_as_the_writer(ring_path: Path) -> None:
    """The header names a process by pid and start time; here the pid lives, but started at another time."""
    with RingWriter.open(ring_path, SPEC, BUFFER_S), RingReader.attach(ring_path) as reader:
        assert reader.writer is WriterState.LIVE
        with ring_path.open("r+b") as file:
            file.seek(72)  # writer: pid in the upper half, start time in the lower
            identity = int.from_bytes(file.read(8), "little")
            assert identity >> 32 == os.getpid()
            file.seek(72)
            file.write((identity ^ 1).to_bytes(8, "little"))
        assert reader.writer is WriterState.DEAD


def test_writers_killed_at_any_moment_leave_a_sound_ring(ring_path: Path) -> None:
    tally = Tally()
    with ExitStack() as stack:
        reader = None
        for turn in range(6):
            with peer(peers.write_until_killed, ring_path, turn) as (process, pipe):
                adopted, epoch, _ = answer(pipe)  # type: ignore[misc]
                assert (adopted, epoch) == (turn > 0, turn + 1)
                if reader is None:
                    reader = stack.enter_context(RingReader.attach(ring_path, position=0))
                end = time.monotonic() + 0.1 + 0.013 * turn
                while time.monotonic() < end:
                    drain(reader, tally)
                kill(process)
                drain(reader, tally)
        with RingWriter.open(ring_path, SPEC, BUFFER_S) as writer:
            assert writer.epoch == 7
            writer.write(frames_at(writer.write_index, 1))
            assert reader is not None
            drain(reader, tally)
            assert tally.wrong == 0
            assert tally.received > 0
            assert tally.received + reader.lost_frames + tally.gap == writer.write_index


def drain(reader: RingReader, tally: Tally) -> None:
    while (block := reader.read(2000)) is not None:
        tally.take(reader, block)


def sleepers(path: Path) -> int:
    """The header's word of sleep bits."""
    with path.open("rb") as file:
        file.seek(192)
        return int.from_bytes(file.read(4), "little")


def test_killed_reader_hurts_nobody_and_its_slot_is_freed(writer: RingWriter, ring_path: Path) -> None:
    with peer(peers.hold_reader, ring_path) as (process, pipe):
        pid = answer(pipe)
        assert [reader.pid for reader in writer.statistics().readers] == [pid]
        end = time.monotonic() + PATIENCE_S
        while not sleepers(ring_path) and time.monotonic() < end:
            time.sleep(0.001)
        kill(process)
        assert sleepers(ring_path) != 0
        assert writer.slowest_reader() is None
        assert sleepers(ring_path) == 0  # the sleep bit of the dead reader went with its slot
        writer.write(frames_at(0, 2 * writer.capacity))
        with RingReader.attach(ring_path):
            assert [reader.pid for reader in writer.statistics().readers] == [os.getpid()]


def test_slots_of_killed_readers_can_be_taken_without_the_writer(writer: RingWriter, ring_path: Path) -> None:
    with peer(peers.hold_reader, ring_path) as (process, pipe):
        answer(pipe)
        kill(process)
        with RingReader.attach(ring_path) as reader:
            writer.write(frames_at(0, 1))
            assert reader.wait(PATIENCE_S)


def test_segment_outlives_a_reader(ring_path: Path) -> None:
    """Field case 35."""
    with RingWriter.open(ring_path, SPEC, BUFFER_S) as writer:
        writer.write(frames_at(0, 10))
        with peer(peers.hold_reader, ring_path) as (process, pipe):
            answer(pipe)
            kill(process)
        assert ring_path.exists()
        with RingReader.attach(ring_path, position=0) as reader:
            assert reader.read(100) is not None


def test_two_processes_that_open_at_once_get_one_writer(ring_path: Path) -> None:
    with ExitStack() as stack:
        rivals = [stack.enter_context(peer(peers.race_to_open, ring_path)) for _ in range(3)]
        for _, pipe in rivals:
            pipe.send("go")
        won = [answer(pipe) for _, pipe in rivals]
        assert won.count(True) == 1
        with pytest.raises(RingBusy):
            RingWriter.open(ring_path, SPEC, BUFFER_S)
        for _, pipe in rivals:
            pipe.send("end")
        for process, _ in rivals:
            process.join(PATIENCE_S)
