"""The other processes of the ring tests: targets for ``multiprocessing`` with ``spawn``.

Frames carry their own index, so that any reader knows what it must find: channel 0 is the index, channel 1
a mix of its bits, both modulo 2**32.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.ring import Block, RingReader, RingWriter, WriterState
from cosyd.spec import AudioSpec, SampleFormat

SPEC = AudioSpec(48_000, 2, SampleFormat.S32)
BUFFER_S = 1.0


def frames_at(index: int, count: int) -> NDArray[np.int32]:
    clock = np.arange(index, index + count, dtype=np.uint64)
    mixed = (clock * np.uint64(2654435761)) ^ (clock >> np.uint64(7))
    return np.stack([clock, mixed], axis=1).astype(np.uint32).view(np.int32)


def checksum(frames: NDArray[Any]) -> int:
    return int(frames.astype(np.uint32).sum(dtype=np.uint64))


@dataclass
class Tally:
    """What a reader found. Lost and gap frames after the last block are not in it."""

    received: int = 0
    lost: int = 0
    gap: int = 0
    wrong: int = 0
    checksum: int = 0

    def take(self, reader: RingReader, block: Block) -> None:
        copy = block.frames.copy()
        self.lost += block.lost
        self.gap += block.gap
        if not reader.intact(block):
            return
        self.received += len(copy)
        self.wrong += not np.array_equal(copy, frames_at(block.index, len(copy)))
        self.checksum += checksum(copy)


def read_to_the_end(path: Path, pipe: Connection, most: int, pause_s: float) -> None:
    """Reads from 0 until the writer has ended and all is read; sends the tally and ``lost_frames``."""
    tally = Tally()
    with RingReader.attach(path, position=0) as reader:
        pipe.send("attached")
        while True:
            ended = reader.wait(1) and reader.writer is WriterState.CLOSED
            block = reader.read(most)
            if block is None and ended:
                break
            if block is not None:
                tally.take(reader, block)
                del block
            time.sleep(pause_s)
        pipe.send((tally, reader.lost_frames, reader.position))


def answer_each_frame(path: Path, pipe: Connection, rounds: int) -> None:
    """Waits for each block and reports its index, to show that every write wakes a sleeper."""
    with RingReader.attach(path) as reader:
        pipe.send("attached")
        for _ in range(rounds):
            if not reader.wait(60):
                pipe.send("asleep")
                return
            block = reader.read(1000)
            pipe.send(block.index if block else None)


def write_until_killed(path: Path, pipe: Connection, seed: int) -> None:
    """Writes and skips at random, in blocks of all sizes, as fast as it can."""
    chance = random.Random(seed)
    writer = RingWriter.open(path, SPEC, BUFFER_S)
    pipe.send((writer.adopted, writer.epoch, writer.write_index))
    while True:
        index, count = writer.write_index, chance.randint(1, 5000)
        if chance.random() < 0.02:
            writer.skip(count)
        else:
            writer.write(frames_at(index, count))


def hold_open(path: Path, pipe: Connection) -> None:
    """A writer that has written 100 frames and does nothing until it is killed."""
    writer = RingWriter.open(path, SPEC, BUFFER_S)
    writer.write(frames_at(writer.write_index, 100))
    pipe.send(os.getpid())
    time.sleep(1000)


def hold_reader(path: Path, pipe: Connection) -> None:
    """A reader that sleeps in ``wait`` until it is killed."""
    with RingReader.attach(path) as reader:
        pipe.send(os.getpid())
        reader.wait(1000)


def wait_for_signal(path: Path, pipe: Connection) -> None:
    """Sleeps in ``wait`` and in ``read``; a KeyboardInterrupt must come through."""
    with RingReader.attach(path) as reader:
        for sleep in (reader.wait, lambda seconds: reader.read(1, seconds)):
            pipe.send(os.getpid())
            try:
                sleep(1000)
            except KeyboardInterrupt:
                pipe.send("interrupted")


def race_to_open(path: Path, pipe: Connection) -> None:
    """Tries to be the writer when told; says whether it is."""
    from cosyd.errors import RingBusy

    pipe.recv()
    try:
        writer = RingWriter.open(path, SPEC, BUFFER_S)
    except RingBusy:
        pipe.send(False)
        pipe.recv()
        return
    pipe.send(True)
    pipe.recv()
    writer.close()
