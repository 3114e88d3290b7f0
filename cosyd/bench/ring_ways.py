"""What the benchmark of the ring compares: ways to send blocks to another process, and who receives them."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any, Protocol

from cosyd.ring import RingReader, RingWriter
from cosyd.spec import AudioSpec, SampleFormat

SPEC = AudioSpec(48_000, 8, SampleFormat.S16)
FRAMES = SPEC.frames(0.01)
BUFFER_S = 30.0  # as the daemon's default: larger than the caches
STAMP_BYTES = 8  # a block begins with the time at which it was sent
PATIENCE_S = 120.0
LONGEST_WAIT_S = 1.0  # of a reader: then it looks whether its writer lives
HEED_EVERY = 64  # blocks between two looks at how far the reader is; far less than the ring holds


# --- the receiving process -----------------------------------------------------------------------------


def _ring_blocks(source: Any, most: int) -> Iterator[bytes]:
    with RingReader.attach(source) as reader:
        yield b""  # attached
        for block in reader.blocks(most, LONGEST_WAIT_S):
            yield block.frames.tobytes()


def _pipe_blocks(source: Any, most: int) -> Iterator[bytes]:
    yield b""
    while data := source.recv_bytes():
        yield data


def _queue_blocks(source: Any, most: int) -> Iterator[bytes]:
    yield b""
    while data := source.get():
        yield data


BLOCKS: dict[str, Callable[[Any, int], Iterator[bytes]]] = {
    "ring": _ring_blocks,
    "pipe": _pipe_blocks,
    "queue": _queue_blocks,
}


def receive_latency(way: str, source: Any, answers: Connection) -> None:
    """Notes how long each block was under way, in ns."""
    blocks = BLOCKS[way](source, FRAMES)
    answers.send_bytes(next(blocks))
    delays = []
    for data in blocks:
        now = time.monotonic_ns()
        delays.append(now - int.from_bytes(data[:STAMP_BYTES], "little"))
    answers.send(delays)


def receive_published(source: Path, answers: Connection) -> None:
    """Notes how long after its write had begun Python had each block, in ns: each bears that time (see
    ``RingWriter.time_writes``), which the ring gives for a block's last frame."""
    with RingReader.attach(source) as reader:
        answers.send_bytes(b"")
        blocks = reader.blocks(FRAMES, LONGEST_WAIT_S)
        answers.send([time.monotonic_ns() - reader.time_ns(block.end - 1) for block in blocks])


def receive_all(way: str, source: Any, answers: Connection) -> None:
    """Takes a copy of everything and says how many bytes it was."""
    blocks = BLOCKS[way](source, 10 * FRAMES)
    answers.send_bytes(next(blocks))
    answers.send(sum(len(data) for data in blocks))


# --- the sending side ----------------------------------------------------------------------------------


class Way(Protocol):
    """One way to send blocks to another process."""

    name: str
    source: Any  # what the receiver is given

    def send(self, data: bytes) -> None: ...

    def end(self) -> None:
        """Tells the receiver that nothing follows."""
        ...


class RingWay:
    name = "ring"

    def __init__(self, writer: RingWriter) -> None:
        self._writer = writer
        self._sent = 0
        self.source = writer.path

    def send(self, data: bytes) -> None:
        """Waits before a block that its reader would lose, as the file source does."""
        self._sent += 1
        if self._sent % HEED_EVERY == 0:
            while self._behind() > self._writer.capacity - HEED_EVERY * FRAMES:
                time.sleep(0.0001)
        self._writer.write(data)

    def _behind(self) -> int:
        slowest = self._writer.slowest_reader()
        return 0 if slowest is None else self._writer.write_index - slowest

    def end(self) -> None:
        self._writer.close()


class PipeWay:
    name = "pipe"

    def __init__(self, source: Connection, sink: Connection) -> None:
        self.source = source
        self.send = sink.send_bytes
        self._sink = sink

    def end(self) -> None:
        self._sink.send_bytes(b"")


class QueueWay:
    name = "queue"

    def __init__(self, context: SpawnContext) -> None:
        self._queue: multiprocessing.Queue[bytes] = context.Queue(
            1000
        )  # some 7 MB, the size of a ring of 10 s
        self.source = self._queue
        self.send = self._queue.put

    def end(self) -> None:
        self._queue.put(b"")
        self._queue.close()
        self._queue.join_thread()


@contextmanager
def open_way(name: str) -> Iterator[Way]:
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        if name == "ring":
            yield RingWay(stack.enter_context(open_writer()))
        elif name == "pipe":
            source, sink = context.Pipe(duplex=False)
            stack.callback(source.close)
            stack.callback(sink.close)
            yield PipeWay(source, sink)
        else:
            yield QueueWay(context)


def open_writer() -> RingWriter:
    return RingWriter.open(Path(f"/dev/shm/cosyd-bench-{os.getpid()}.ring"), SPEC, BUFFER_S)


@contextmanager
def receiver(target: Callable[..., None], *what: Any) -> Iterator[Connection]:
    """A process that receives ``what``; yields where its answer comes, once it listens."""
    context = multiprocessing.get_context("spawn")
    answers, theirs = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(*what, theirs))
    process.start()
    theirs.close()
    try:
        answers.recv_bytes()
        yield answers
        process.join(PATIENCE_S)
    finally:
        process.kill()
        process.join()
        answers.close()
