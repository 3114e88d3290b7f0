"""GPU memory and load over time, as CSV and as a chart: a saw-tooth in it means fragmentation."""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TextIO

EVERY_S = 0.1
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 300, 66, 120, 16, 40
LINES = (("device_used", "#1f5fa8", "all programs"), ("used", "#c2410c", "cosyd"))


@dataclass(frozen=True)
class Sample:
    """Seconds since the start; bytes in use by cosyd, by all programs, and there; busy share, if told."""

    time_s: float
    used: int
    device_used: int
    device_total: int
    load: float | None


class MemorySampler:
    """Writes a line of CSV every 100 ms while the block runs, and at its end the chart beside it.

    ``look`` gives (used, device_used, device_total, load); it is called on a thread of the sampler's.
    """

    def __init__(self, path: Path, look: Callable[[], tuple[int, int, int, float | None]]) -> None:
        self._path = path
        self._look = look
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-memory")
        self.samples: list[Sample] = []  # a bench of minutes: some thousand

    def __enter__(self) -> MemorySampler:
        self._file = self._path.open("w", newline="")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._file.close()
        self.chart.write_text(memory_chart(self.samples))

    @property
    def chart(self) -> Path:
        """Where the chart goes."""
        return self._path.with_suffix(".svg")

    def _run(self) -> None:
        writer, begun = _writer(self._file), time.monotonic()
        due = begun
        while True:
            now = time.monotonic()
            self.samples.append(Sample(round(now - begun, 3), *self._look()))
            writer(self.samples[-1])
            due = max(due + EVERY_S, now)
            if self._stop.wait(due - now):
                return


def _writer(file: TextIO) -> Callable[[Sample], None]:
    rows = csv.writer(file)
    rows.writerow(field.name for field in fields(Sample))

    def write(sample: Sample) -> None:
        rows.writerow("" if value is None else value for value in astuple(sample))

    return write


def memory_chart(samples: list[Sample]) -> str:
    """GiB over seconds, as SVG."""
    last = max((s.time_s for s in samples), default=0.0) or 1.0
    most = max((s.device_used for s in samples), default=0) or 1
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def point(seconds: float, value: float) -> tuple[float, float]:
        return LEFT + (right - LEFT) * seconds / last, bottom - (bottom - TOP) * value / most

    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for share in (0.0, 0.5, 1.0):
        _, y = point(0, share * most)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{share * most / 2**30:.2f}", "end"))
        x, _ = point(share * last, 0)
        parts.append(_text(x, bottom + 18, f"{share * last:.0f} s", "middle"))
    parts.append(_text(LEFT, HEIGHT - 4, "GiB of GPU memory in use", "start"))
    for row, (name, colour, label) in enumerate(LINES):
        path = " ".join("{:.1f},{:.1f}".format(*point(s.time_s, getattr(s, name))) for s in samples)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(_text(right + 8, TOP + 14 + 18 * row, label, "start", colour))
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">'
    return "\n".join((head, *parts, "</svg>\n"))


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'
