"""Live load on a streaming model: streams at their own pace through the daemon's own queue."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.chunk import Chunk
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.asr.streaming.stream_queue import StreamQueue
from cosyd.bench.report import Report, percentiles
from cosyd.spec import FRAME

Audio = NDArray[np.float32]

LOADS = (1, 8, 32, 64)


@dataclass
class _Paced:
    """One stream of the load test: when its pieces are due, and when its results came."""

    source: str
    clip: Audio
    begun: float
    sent: int = 0
    lags: list[float] = field(default_factory=list)
    first: float | None = None
    final: float | None = None

    @property
    def due(self) -> float:
        return self.begun + min(self.sent + FRAME.block, len(self.clip)) / FRAME.rate_hz

    @property
    def done(self) -> bool:
        return self.sent >= len(self.clip)

    def next(self) -> Chunk:
        piece = self.clip[self.sent : self.sent + FRAME.block]
        self.sent += len(piece)
        last = self.done
        return Chunk(
            id=self.sent,
            source=self.source,
            utt=1,
            kind="final" if last else "partial",
            audio=piece,
            start_sample=self.sent - len(piece),
            end_sample=self.sent,
            anchor=0,
            blocks=self.sent // FRAME.block,
            ends="utterance" if last else "",
        )

    def came(self, now: float, heard: int, kind: str) -> None:
        spoken = self.begun + heard / FRAME.rate_hz
        if kind == "final":
            self.final = now - spoken
        else:
            self.lags.append(now - spoken)
            self.first = self.first if self.first is not None else now - self.begun


def measure_load(report: Report, folder: Path, clips: list[Audio], loads: Sequence[int]) -> None:
    recognizer = CachedStateRecognizer.load(folder, name=folder.name, capacity=max(loads))
    recognizer.warm_up()
    rows = []
    for count in loads:
        cpu, begun = time.process_time(), time.monotonic()
        streams = _pace(recognizer, clips, count)
        took = time.monotonic() - begun
        share = (time.process_time() - cpu) / took
        lags = percentiles([lag for stream in streams for lag in stream.lags], (50, 99))
        finals = percentiles([stream.final for stream in streams if stream.final is not None], (50, 99))
        first = percentiles([stream.first for stream in streams if stream.first is not None], (50,))
        cells = (first[50], lags[50], lags[99], finals[50], finals[99])
        rows.append((str(count), *(f"{value * 1000:.0f} ms" for value in cells), f"{share:.0%}"))
    recognizer.close()
    head = ("streams", "first partial", "lag P50", "lag P99", "final P50", "final P99", "processor")
    report.table(f"Live load, {folder.name}", head, rows)


def _pace(recognizer: CachedStateRecognizer, clips: list[Audio], count: int) -> list[_Paced]:
    """All streams at their own pace through one queue, until the last final is there."""
    now = time.monotonic()
    streams = [
        _Paced(f"s{i}", clips[i % len(clips)], now + 0.32 * i / count)  # chunks of all do not end together
        for i in range(count)
    ]
    by_source = {stream.source: stream for stream in streams}
    with StreamQueue(recognizer) as queue:
        while any(stream.final is None for stream in streams):
            now = time.monotonic()
            for stream in streams:
                while not stream.done and stream.due <= now:
                    queue.submit(stream.next())
            open_ones = [stream.due for stream in streams if not stream.done]
            queue.wait(max(0.001, min(open_ones, default=now + 0.05) - time.monotonic()))
            for result in queue.results():
                decode = result.decode
                by_source[decode.source].came(time.monotonic(), decode.end_sample, decode.kind)
    return streams
