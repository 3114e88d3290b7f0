"""``cosyd bench ring``: what a write costs, how soon a sleeping reader runs, and how much goes through.

Blocks of 10 ms of eight channels, 48 kHz, S16 go to a reader in another process. The same blocks go through
``multiprocessing.Pipe`` and ``Queue`` in the same run, because that is what one would use without a ring.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.bench.report import Report
from cosyd.bench.ring_ways import (
    BLOCKS,
    FRAMES,
    SPEC,
    STAMP_BYTES,
    open_way,
    open_writer,
    receive_all,
    receive_latency,
    receive_published,
    receiver,
)
from cosyd.ring import RingWriter

BLOCK_BYTES = FRAMES * SPEC.frame_bytes
PAUSE_S = 0.002  # between blocks when latency is measured: the reader is asleep again by then


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    writes: int
    wakes: int
    paced: int
    blocks: int


QUICK = Size(writes=2_000, wakes=300, paced=100, blocks=3_000)
FULL = Size(writes=50_000, wakes=5_000, paced=1_000, blocks=50_000)


def latencies_us(name: str, count: int) -> NDArray[np.float64]:
    """From just before the write until the reader has the block, in µs; the reader slept before each."""
    rest = bytes(BLOCK_BYTES - STAMP_BYTES)
    with open_way(name) as way, receiver(receive_latency, name, way.source) as answers:
        for _ in range(count):
            time.sleep(PAUSE_S)
            way.send(time.monotonic_ns().to_bytes(STAMP_BYTES, "little") + rest)
        way.end()
        return np.asarray(answers.recv(), np.float64) / 1e3


def wakes_us(count: int) -> NDArray[np.float64]:
    """From a write in C, as the capture callback's, until Python has the block in the reader, in µs."""
    with open_writer() as writer, receiver(receive_published, writer.path) as answers:
        writer.time_writes(bytes(BLOCK_BYTES), count, round(PAUSE_S * 1e9))
        writer.close()
        return np.asarray(answers.recv(), np.float64) / 1e3


def throughput_mb_s(name: str, blocks: int) -> float:
    """Blocks as fast as they go, none lost, each copied out by the reader: MB/s (10**6)."""
    block = bytes(BLOCK_BYTES)
    with open_way(name) as way, receiver(receive_all, name, way.source) as answers:
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
    with open_writer() as writer:
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
