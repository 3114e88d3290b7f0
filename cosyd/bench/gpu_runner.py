"""Drives a GPU pipeline with noise and takes the times."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.streams import stream_record
from cosyd.spec import AudioSpec, SampleFormat

SPEC = AudioSpec(48_000, 1, SampleFormat.S16)
FILL_THREADS = 8  # that copy PCM into page-locked memory: one alone reaches 5 GB/s
Values = dict[str, Any]


def percentiles(seconds: NDArray[np.float64], scale: float = 1e6) -> Values:
    """Of durations, in microseconds by default."""
    p50, p90, p99 = np.percentile(seconds, (50, 90, 99)) * scale
    return {
        "p50": round(p50, 2),
        "p90": round(p90, 2),
        "p99": round(p99, 2),
        "max": round(seconds.max() * scale, 2),
    }


def timed(call: Callable[[], Any], wait: Callable[[], Any], repeats: int) -> NDArray[np.float64]:
    """Seconds of each of ``repeats`` calls, waited for one by one, after as many to warm up (20 at most)."""
    durations = np.empty(repeats)
    for i in range(-min(repeats, 20), repeats):
        begin = time.perf_counter()
        call()
        wait()
        if i >= 0:
            durations[i] = time.perf_counter() - begin
    return durations


class Runner:
    """Feeds noise to all slots of a pipeline, a hop a step, and times the steps."""

    def __init__(self, pipeline: Pipeline, count: int, aligned: bool = False) -> None:
        self._pipeline, self._slots = pipeline, np.arange(count)
        rng = np.random.default_rng(1)
        self._noise = rng.integers(-8000, 8000, (count, pipeline.stride // 2), np.int16).view(np.uint8)
        ratio = pipeline.filters.ratio(SPEC.rate_hz)
        record = stream_record(SPEC, ratio, (0,))
        history = np.zeros((count, pipeline.filters.widest), np.float32)
        pipeline.join(self._slots, np.array([record] * count), [ratio] * count, history)
        if not aligned:  # as if streams had begun at different hops: a quarter of them has a chunk each time
            pipeline.clock.hop[:] = 8 + self._slots % 4
        self.seconds = self.host = np.zeros(0)
        workers = FILL_THREADS if count >= FILL_THREADS * 256 else 1
        self._parts = [slice(count * i // workers, count * (i + 1) // workers) for i in range(workers)]
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None

    def prepare(self) -> None:
        """The header, and every stream's PCM into page-locked memory (by several threads when it is much)."""
        pcm = self._pipeline.begin(self._slots)
        if self._pool is None:
            np.copyto(pcm, self._noise)
            return
        jobs = [self._pool.submit(np.copyto, pcm[part], self._noise[part]) for part in self._parts]
        for job in jobs:
            job.result()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def sustained(self, hops: int) -> NDArray[np.float64]:
        """Seconds a hop when the host fills the next one while the device works: what a live service sees."""
        interval, running = np.empty(hops), -1
        last = time.perf_counter()
        for i in range(hops):
            self.prepare()
            ticket = self._pipeline.launch()
            if running >= 0:
                self._pipeline.collect(running)
            running = ticket
            now = time.perf_counter()
            interval[i], last = now - last, now
        self._pipeline.collect(running)
        return interval[1:]

    def steps(self, hops: int) -> None:
        """``seconds``: launch to results in host memory; ``host``: what filling the buffer took."""
        seconds, host = np.empty(hops), np.empty(hops)
        for i in range(hops):
            start = time.perf_counter()
            self.prepare()
            filled = time.perf_counter()
            self._pipeline.collect(self._pipeline.launch())
            seconds[i], host[i] = time.perf_counter() - filled, filled - start
        self.seconds, self.host = seconds, host
