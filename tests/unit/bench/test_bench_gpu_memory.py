"""The sampler of GPU memory, with a device that is numbers."""

from __future__ import annotations

import csv
import itertools
import threading
import time
from pathlib import Path
from xml.etree import ElementTree

from cosyd.bench.gpu_memory import LINES, MemorySampler, Sample, memory_chart


def test_samples_are_lines_of_csv_with_a_chart_beside_them(tmp_path: Path) -> None:
    steps = itertools.count()

    def look() -> tuple[int, int, int, float | None]:
        step = next(steps)
        return step, 100 + step, 1000, None if step % 2 else 0.5

    path = tmp_path / "memory.csv"
    before = threading.active_count()
    with MemorySampler(path, look) as sampler:
        while len(sampler.samples) < 4:
            time.sleep(0.02)
    assert threading.active_count() == before
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(sampler.samples) >= 4
    assert [row["used"] for row in rows[:3]] == ["0", "1", "2"]
    assert [row["load"] for row in rows[:2]] == ["0.5", ""]
    times = [float(row["time_s"]) for row in rows]
    assert all(b > a for a, b in itertools.pairwise(times))
    assert sampler.chart == tmp_path / "memory.svg"
    assert sampler.chart.read_text().startswith("<svg ")


def test_the_chart_shows_what_was_sampled() -> None:
    samples = [Sample(0.0, 0, 2**30, 2**32, None), Sample(10.0, 2**29, 2**31, 2**32, 1.0)]
    root = ElementTree.fromstring(memory_chart(samples))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == len(LINES)
    (x0, y0), (x1, y1) = (map(float, p.split(",")) for p in lines[0].attrib["points"].split())
    assert x1 > x0 and y1 < y0, "time to the right, memory upwards"
    texts = [element.text for element in root.iter() if element.text]
    assert "2.00" in texts and "10 s" in texts


def test_a_chart_of_nothing_is_a_chart() -> None:
    ElementTree.fromstring(memory_chart([]))
