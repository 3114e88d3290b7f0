"""``cosyd bench ring``: what a write costs, how soon a sleeping reader runs, and how much goes through.

Blocks of 10 ms of eight channels, 48 kHz, S16 go to a reader in another process. The same blocks go through
``multiprocessing.Pipe`` and ``Queue`` in the same run, because that is what one would use without a ring.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.bench.report import Report
from cosyd.ring import Block, RingReader, RingWriter, WriterState
from cosyd.spec import AudioSpec, SampleFormat

SPEC = AudioSpec(48_000, 8, SampleFormat.S16)
FRAMES = SPEC.frames(0.01)
BLOCK_BYTES = FRAMES * SPEC.frame_bytes
BUFFER_S = 30.0  # as the daemon's default: larger than the caches
STAMP_BYTES = 8  # a block begins with the time at which it was sent
PAUSE_S = 0.002  # between blocks when latency is measured: the reader is asleep again by then
PATIENCE_S = 120.0
HEED_EVERY = 64  # blocks between two looks at how far the reader is; far less than the ring holds


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    writes: int
    wakes: int
    paced: int
    blocks: int


QUICK = Size(writes=2_000, wakes=300, paced=100, blocks=3_000)
FULL = Size(writes=50_000, wakes=5_000, paced=1_000, blocks=50_000)


# --- the receiving process -----------------------------------------------------------------------------


def _arriving(reader: RingReader, most: int) -> Iterator[Block]:
    """Blocks as they come, until the writer is gone."""
    while True:
        reader.wait(1.0)
        block = reader.read(most)
        if block is not None:
            yield block
        elif reader.writer is not WriterState.LIVE:
            return


def _ring_blocks(source: Any, most: int) -> Iterator[bytes]:
    with RingReader.attach(source) as reader:
        yield b""  # attached
        for block in _arriving(reader, most):
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
    """Notes how long each block was in the ring before Python had it, in ns, by the ring's own clock."""
    with RingReader.attach(source) as reader:
        answers.send_bytes(b"")
        blocks = _arriving(reader, FRAMES)
        answers.send([time.monotonic_ns() - reader.time_ns(block.end) for block in blocks])


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
def _way(name: str) -> Iterator[Way]:
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        if name == "ring":
            yield RingWay(stack.enter_context(_writer()))
        elif name == "pipe":
            source, sink = context.Pipe(duplex=False)
            stack.callback(source.close)
            stack.callback(sink.close)
            yield PipeWay(source, sink)
        else:
            yield QueueWay(context)


def _writer() -> RingWriter:
    return RingWriter.open(Path(f"/dev/shm/cosyd-bench-{os.getpid()}.ring"), SPEC, BUFFER_S)


@contextmanager
def _receiver(target: Callable[..., None], *what: Any) -> Iterator[Connection]:
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


# --- measuring -----------------------------------------------------------------------------------------


def latencies_us(name: str, count: int) -> NDArray[np.float64]:
    """From just before the write until the reader has the block, in µs; the reader slept before each."""
    rest = bytes(BLOCK_BYTES - STAMP_BYTES)
    with _way(name) as way, _receiver(receive_latency, name, way.source) as answers:
        for _ in range(count):
            time.sleep(PAUSE_S)
            way.send(time.monotonic_ns().to_bytes(STAMP_BYTES, "little") + rest)
        way.end()
        return np.asarray(answers.recv(), np.float64) / 1e3


def wakes_us(count: int) -> NDArray[np.float64]:
    """From a write in C, as the capture callback's, until Python has the block in the reader, in µs."""
    with _writer() as writer, _receiver(receive_published, writer.path) as answers:
        writer.time_writes(bytes(BLOCK_BYTES), count, round(PAUSE_S * 1e9))
        writer.close()
        return np.asarray(answers.recv(), np.float64) / 1e3


def throughput_mb_s(name: str, blocks: int) -> float:
    """Blocks as fast as they go, none lost, each copied out by the reader: MB/s (10**6)."""
    block = bytes(BLOCK_BYTES)
    with _way(name) as way, _receiver(receive_all, name, way.source) as answers:
        begun = time.perf_counter()
        for _ in range(blocks):
            way.send(block)
        way.end()
        received: int = answers.recv()
        seconds = time.perf_counter() - begun
    if received != blocks * BLOCK_BYTES:
        raise RuntimeError(f"{name}: {received} of {blocks * BLOCK_BYTES} bytes arrived")
    return received / seconds / 1e6


def python_writes_us(writer: RingWriter, count: int, pause_s: float = 0.0) -> NDArray[np.float64]:
    """Each ``RingWriter.write`` of one block from Python, in µs."""
    block = np.zeros((FRAMES, SPEC.channels), np.int16)
    taken = []
    for _ in range(count):
        if pause_s:
            time.sleep(pause_s)
        begun = time.perf_counter_ns()
        writer.write(block)
        taken.append(time.perf_counter_ns() - begun)
    return np.asarray(taken, np.float64) / 1e3


def _add_writes(report: Report, size: Size) -> None:
    with _writer() as writer:
        core = np.asarray(writer.time_writes(bytes(BLOCK_BYTES), size.writes), np.float64) / 1e3
        called = python_writes_us(writer, size.writes)
        paced = python_writes_us(writer, size.paced, pause_s=0.01)
    report.add(
        "write_c_median", np.median(core), "us", target=3, note="10 ms of 8 ch 48 kHz S16, in a C loop"
    )
    report.add("write_c_p99", np.percentile(core, 99), "us")
    report.add("write_python_median", np.median(called), "us", target=3, note="the same, called from Python")
    report.add("write_paced_median", np.median(paced), "us", note="one every 10 ms, caches cold, from Python")


def _add_ways(report: Report, size: Size) -> None:
    p50, p99 = np.percentile(wakes_us(size.wakes), [50, 99])
    report.add("ring_wake_p50", p50, "us", note="the writer is in C, as the capture callback is")
    report.add("ring_wake_p99", p99, "us", target=200, note="likewise")
    rows = [("ring, written in C", f"{p50:.0f}", f"{p99:.0f}", "–")]
    for name in BLOCKS:
        delays = latencies_us(name, size.wakes)
        p50, p99 = np.percentile(delays, [50, 99])
        rate = throughput_mb_s(name, size.blocks)
        report.add(f"{name}_between_pythons_p50", p50, "us")
        report.add(f"{name}_between_pythons_p99", p99, "us")
        report.add(f"{name}_throughput", rate, "MB/s")
        rows.append((name, f"{p50:.0f}", f"{p99:.0f}", f"{rate:.0f}"))
    report.table("Between two processes", ("way", "wake P50, µs", "wake P99, µs", "MB/s"), rows)


def run(quick: bool) -> dict[str, Any]:
    """Measures; see ``Report.as_dict`` for the shape of the result."""
    size = QUICK if quick else FULL
    load = os.getloadavg()[0]
    report = Report(
        "ring",
        "The shared-memory ring",
        f"Blocks of {FRAMES} frames ({BLOCK_BYTES} bytes: 10 ms of 8 channels, 48 kHz, S16) to a reader in "
        f"another process. Wake-up: from just before the write until Python has the block in the reader, "
        f"which was asleep; {size.wakes} blocks, one every {PAUSE_S * 1e3:g} ms. The writer is a C loop, as "
        "the daemon's are (PortAudio's callback, or a file that is played); between Pythons, for comparison, "
        "the writer's Python is in it, too, with cold caches after each pause. "
        f"Throughput: {size.blocks} "
        f"blocks, none lost, each copied out. The load average was {load:.1f} at the start, on "
        f"{os.cpu_count()} CPUs.",
        quick,
    )
    _add_writes(report, size)
    _add_ways(report, size)
    return report.as_dict()
