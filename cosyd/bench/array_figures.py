"""The figures of docs/array.md: ``python -m cosyd.bench.array_figures`` draws them anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosyd.array import beams
from cosyd.array.geometry import Geometry, unit
from cosyd.array.stft import FREQUENCIES_HZ
from cosyd.config.arrays import PRESETS
from cosyd.config.schema import ArrayConfig

FOLDER = Path(__file__).resolve().parents[2] / "docs"
SIZE = 220  # pixels of a plot
FLOOR_DB = -30.0
SHOWN_HZ = (500, 1_000, 2_000, 4_000)
LOOK_DEG = 40.0
COLOURS = {"delay-sum": "#4878a8", "superdirective": "#c04040"}
STYLE = "font-family='sans-serif' font-size='11' fill='#555'"


def main() -> None:
    (FOLDER / "array-geometry.svg").write_text(geometries())
    (FOLDER / "array-polar.svg").write_text(polars("respeaker-4"))


def geometries() -> str:
    """Every preset from above, at one scale."""
    plots = [_plan(name, i % 3 * SIZE, i // 3 * SIZE) for i, name in enumerate(PRESETS)]
    return _svg(3 * SIZE, -(-len(PRESETS) // 3) * SIZE, plots)


def polars(preset: str) -> str:
    """Responses of the fixed beams around the array, a plot a frequency."""
    plots = [_polar(preset, hertz, i * SIZE, 0) for i, hertz in enumerate(SHOWN_HZ)]
    keys = [
        f"<text x='{10 + 130 * i}' y='{SIZE + 16}' font-family='sans-serif' fill='{c}'>{n}</text>"
        for i, (n, c) in enumerate(COLOURS.items())
    ]
    return _svg(len(SHOWN_HZ) * SIZE, SIZE + 26, [*plots, *keys])


def response_db(preset: str, beam: str, hertz: float) -> NDArray[np.float64]:
    """Of a beam towards LOOK_DEG: dB for each degree around."""
    config = ArrayConfig(geometry=preset)  # type: ignore[arg-type]
    geometry = Geometry.of(config)
    at = int(np.argmin(np.abs(FREQUENCIES_HZ - hertz)))
    d = beams.steering(geometry, unit(LOOK_DEG))
    if beam == "delay-sum":
        weights = beams.delay_and_sum(d)
    else:
        weights = beams.mvdr(d, beams.diffuse(geometry), 10 ** (config.loading_db / 10))
    around = geometry.steering(unit(np.arange(360.0)), FREQUENCIES_HZ[at : at + 1])[:, 0]
    return np.asarray(20 * np.log10(np.maximum(np.abs(around @ weights[at].conj()), 1e-6)))


def _plan(name: str, left: float, top: float) -> str:
    geometry = Geometry.of(ArrayConfig(geometry=name))  # type: ignore[arg-type]
    scale = SIZE / 0.13  # pixels a metre
    x0, y0 = left + SIZE / 2, top + SIZE / 2 + 8
    marks = [
        _microphone(x0 + scale * x, y0 - scale * y, channel)
        for (x, y, _), channel in zip(geometry.positions, geometry.channels, strict=True)
    ]
    axes = _line([(x0 - 75, y0), (x0 + 75, y0)]) + _line([(x0, y0 + 75), (x0, y0 - 75)])
    note = f"{name}, unambiguous to {geometry.aliasing_hz / 1000:.1f} kHz"
    title = f"<text x='{left + SIZE / 2}' y='{top + 16}' text-anchor='middle' {STYLE}>{note}</text>"
    ends = (
        f"<text x='{x0 + 80}' y='{y0 + 4}' {STYLE}>x</text><text x='{x0 - 3}' y='{y0 - 80}' {STYLE}>y</text>"
    )
    return axes + ends + "".join(marks) + title


def _microphone(x: float, y: float, channel: int) -> str:
    return (
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='9' fill='#e8eef4' stroke='#4878a8'/>"
        f"<text x='{x:.1f}' y='{y + 4:.1f}' text-anchor='middle' {STYLE}>{channel}</text>"
    )


def _polar(preset: str, hertz: int, left: float, top: float) -> str:
    x0, y0, radius = left + SIZE / 2, top + SIZE / 2 + 8, SIZE / 2 - 24
    rings = "".join(
        f"<circle cx='{x0}' cy='{y0}' r='{radius * (1 - db / FLOOR_DB):.1f}' fill='none' stroke='#ddd'/>"
        for db in (0, -10, -20)
    )
    curves = "".join(
        _line(_around(response_db(preset, beam, hertz), x0, y0, radius), colour, 1.6)
        for beam, colour in COLOURS.items()
    )
    look = np.radians(LOOK_DEG)
    end = (x0 + radius * float(np.cos(look)), y0 - radius * float(np.sin(look)))
    title = f"<text x='{x0}' y='{top + 14}' text-anchor='middle' {STYLE}>{hertz:,} Hz</text>"
    return rings + _line([(x0, y0), end], "#999") + curves + title


def _around(db: NDArray[np.float64], x0: float, y0: float, radius: float) -> list[tuple[float, float]]:
    length = radius * np.clip(1 - db / FLOOR_DB, 0, 1.1)
    turns = np.radians(np.arange(361))
    closed = np.append(length, length[0])
    return [
        (x0 + r * float(np.cos(a)), y0 - r * float(np.sin(a))) for r, a in zip(closed, turns, strict=True)
    ]


def _line(points: Iterable[tuple[float, float]], colour: str = "#bbb", width: float = 1.0) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{width}'/>"


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}'>"
    return "\n".join([head, f"<rect width='{width}' height='{height}' fill='white'/>", *parts, "</svg>\n"])


if __name__ == "__main__":
    main()
