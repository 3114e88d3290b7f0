"""What the daemon sees of the GPU: blocks from a real ring, through the front end that it opens."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.bench.gpu_runner import SPEC, Values, percentiles
from cosyd.config.schema import FrontendConfig, GpuConfig
from cosyd.gpu.factory import open_front_end
from cosyd.models.store import ModelStore
from cosyd.ring import RingReader, RingWriter
from cosyd.spec import FRAME
from cosyd.types import GpuUsage, Health

RING_S = 30.0  # as sources have it by default
PUSH_S = 0.032  # a block: what the daemon reads when it wakes


class _Deaf:
    def health(self, health: Health) -> None:
        pass

    def usage(self, usage: GpuUsage) -> None:
        pass

    def alive(self) -> None:
        pass

    def renew(self, reason: str) -> None:
        pass


def blocks(models: Path, cache: Path, lent: bool, count: int = 3_000, streams: int = 1) -> Values:
    """Step time of ``count`` blocks after the first; ``lent``: the ring's pages may be read in place."""
    config = FrontendConfig(max_streams=max(streams, 8), denoise_rests=False)
    begun = time.perf_counter()
    with (
        open_front_end(config, GpuConfig(require_gpu=True), ModelStore(models), cache, _Deaf()) as front,
        tempfile.TemporaryDirectory(dir="/dev/shm", prefix="cosyd-bench-") as folder,
    ):
        opening = time.perf_counter() - begun
        with RingWriter.open(Path(folder) / "ring", SPEC, RING_S) as writer:
            seconds, pushing, way = _play(front, writer, Path(folder) / "ring", lent, count, streams)
    return {
        "streams": streams,
        "frames": way,
        "opening_s": round(opening, 2),
        "push_us": round(float(np.median(pushing)) * 1e6, 1),
        "first_us": round(seconds[0] * 1e6, 1),
        "us": percentiles(seconds[1:]),
    }


def _play(
    front: Any, writer: RingWriter, path: Path, lent: bool, count: int, streams: int
) -> tuple[Any, Any, str]:
    noise = np.random.default_rng(0).integers(-8000, 8000, (SPEC.frames(1.0), 1), np.int16)
    piece = SPEC.frames(PUSH_S)
    seconds: list[float] = []
    pushing: list[float] = []
    with RingReader.attach(path, position=0) as reader:
        slots = [front.open(SPEC) for _ in range(streams)]
        for slot in slots if lent else ():
            front.lend(slot, reader.capacity)
        for index in range(count + 8):
            at = index * piece % (len(noise) - piece)
            writer.write(np.ascontiguousarray(noise[at : at + piece]))
            block = reader.read(piece)
            assert block is not None
            start = time.perf_counter()
            for slot in slots:
                front.push(slot, block.frames, block.index)
            begin = time.perf_counter()
            pushing.append(begin - start)
            batch = front.step()
            if batch is not None:
                seconds.append(time.perf_counter() - begin)
        way = front.backends_of(slots[0])["vad"].reason
        for slot in slots:
            front.close(slot)
    return np.array(seconds), np.array(pushing), way.rsplit("; ", 1)[-1]


METHOD = (
    f"A block is {FRAME.block_ms} ms: four hops, so four graph launches. 'First' is the first block after "
    "the front end was opened. Times are of `step()`, with all of Python's part, results in host memory; "
    "'push' is what handing a block of each stream over took before that."
)
