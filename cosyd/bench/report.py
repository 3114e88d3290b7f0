"""What all benchmarks share: figures beside targets, the machine they were taken on, the report on disk.

A benchmark fills a ``Report`` and returns ``report.as_dict()``. ``save`` writes it as ``NAME.json`` and,
from the same content, as ``NAME.md``; nothing in the Markdown is typed by hand.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.version import VERSION

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
LIBRARIES = ("numpy", "onnxruntime", "pyzmq", "sounddevice", "scipy")


@dataclass(frozen=True)
class Figure:
    """One measured number. ``target`` is its bound, an upper one unless ``at_least``."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def bound(self) -> str:
        if self.target is None:
            return ""
        return f"{'≥' if self.at_least else '≤'} {number(self.target)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Table:
    """Rows for people; what machines read of it are the figures."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Chart:
    """A picture beside the page, ``NAME-FILE.svg``; the page shows it with its title."""

    file: str
    title: str
    svg: str


@dataclass
class Report:
    """What one benchmark found. ``method``: how it was measured, in a few sentences."""

    name: str
    title: str
    method: str
    quick: bool = False
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    load_before: float = field(default_factory=lambda: round(os.getloadavg()[0], 2))

    def add(self, name: str, value: float, unit: str, **details: Any) -> None:
        self.figures.append(Figure(name, float(value), unit, **details))

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.tables.append(Table(title, tuple(head), tuple(tuple(row) for row in rows)))

    def chart(self, file: str, title: str, svg: str) -> None:
        self.charts.append(Chart(f"{self.name}-{file}.svg", title, svg))

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "method": self.method,
            "quick": self.quick,
            "environment": environment() | {"load_before": self.load_before},
            "figures": [asdict(f) | {"met": f.met, "bound": f.bound} for f in self.figures],
            "tables": [asdict(table) for table in self.tables],
            "charts": [asdict(chart) for chart in self.charts],
        }


def percentiles(values: Sequence[float], which: Sequence[int] = (50, 95, 99)) -> dict[int, float]:
    """Percentiles of ``values``, NaN when there are none."""
    if not len(values):
        return dict.fromkeys(which, float("nan"))
    return {p: float(v) for p, v in zip(which, np.percentile(values, which), strict=True)}


def number(value: float) -> str:
    """Three significant digits, no exponent."""
    if value != value:
        return "–"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 4
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- the machine ---------------------------------------------------------------------------------------


def environment() -> dict[str, Any]:
    """Date, machine and versions: a figure without them says nothing."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cosyd": VERSION,
        **{name: _version(name) for name in LIBRARIES},
    }


def cpu_name() -> str:
    """The processor's model name, or its architecture where the kernel tells none (aarch64)."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


# --- on disk -------------------------------------------------------------------------------------------


def save(result: dict[str, Any], folder: Path = FOLDER) -> tuple[Path, Path]:
    """Write ``NAME.json``, ``NAME.md`` and the charts; the paths of the first two."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in result.get("charts", ()):
        (folder / chart["file"]).write_text(chart["svg"])
    charts = [{"file": chart["file"], "title": chart["title"]} for chart in result.get("charts", ())]
    result = result | {"charts": charts}
    as_json, as_markdown = folder / f"{result['name']}.json", folder / f"{result['name']}.md"
    as_json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    as_markdown.write_text(markdown(result))
    return as_json, as_markdown


def markdown(result: dict[str, Any]) -> str:
    """A result of ``Report.as_dict`` as a page."""
    parts = [f"# {result['title']}", _made_by(result), result["method"]]
    if result["figures"]:
        parts.append(_figures(result["figures"]))
    parts += [f"![{chart['title']}]({chart['file']})" for chart in result.get("charts", ())]
    for table in result["tables"]:
        parts += [f"## {table['title']}", _rows(table["head"], table["rows"])]
    return "\n\n".join(parts) + "\n"


def _made_by(result: dict[str, Any]) -> str:
    about = result["environment"]
    versions = ", ".join(f"{name} {about[name]}" for name in ("python", "cosyd", *LIBRARIES))
    machine = f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, Linux {about['kernel']}"
    how = f"`cosyd bench {result['name']}{' --quick' if result['quick'] else ''}`"
    return f"{how} on {about['date']}, load {about['load_before']} before. {machine}; {versions}."


def _figures(figures: Sequence[dict[str, Any]]) -> str:
    met = {True: "met", False: "**missed**", None: ""}
    rows = [
        (f["name"], f"{number(f['value'])} {f['unit']}".rstrip(), f["bound"], met[f["met"]], f["note"])
        for f in figures
    ]
    return _rows(("figure", "measured", "target", "", ""), rows)


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
