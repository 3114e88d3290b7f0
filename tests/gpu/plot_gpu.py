"""A chart of step time against streams, as SVG, without a plotting library."""

from __future__ import annotations

from math import log10
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 62, 130, 20, 48
LOW, HIGH, FIRST, LAST = 0.03, 20.0, 1, 200_000  # ms and streams at the edges
COLOURS = {"fp32": "#1f5fa8", "fp16": "#c2410c", "bf16": "#15803d"}
HOP_MS = 8


def _x(streams: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * log10(streams / FIRST) / log10(LAST / FIRST)


def _y(ms: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * log10(ms / LOW) / log10(HIGH / LOW)


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _grid() -> list[str]:
    thin, right, bottom = 'stroke="#ddd"', WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for ms in (0.1, 1, 10):
        parts += [_line(LEFT, _y(ms), right, _y(ms), thin), _text(LEFT - 8, _y(ms) + 4, f"{ms:g}", "end")]
    for streams in (1, 10, 100, 1_000, 10_000, 100_000):
        parts += [
            _line(_x(streams), TOP, _x(streams), bottom, thin),
            _text(_x(streams), bottom + 18, f"{streams:,}"),
        ]
    parts.append(_line(LEFT, _y(HOP_MS), right, _y(HOP_MS), 'stroke="#b91c1c" stroke-dasharray="6 4"'))
    parts.append(_text(right + 6, _y(HOP_MS) + 4, "one hop, 8 ms", "start", "#b91c1c"))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 10, "streams"))
    parts.append(
        f'<g transform="rotate(-90 16 {HEIGHT / 2})">{_text(16, HEIGHT / 2, "P99 of a step, ms")}</g>'
    )
    return parts


def streams_chart(rows: list[dict[str, Any]]) -> str:
    """``rows`` as cosyd.bench.gpu_measure gives them."""
    parts = _grid()
    for i, (mode, colour) in enumerate(COLOURS.items()):
        points = [(r["streams"], r["step_ms"]["p99"]) for r in rows if r["mode"] == mode and not r["aligned"]]
        if not points:
            continue
        path = " ".join(f"{_x(n):.1f},{_y(ms):.1f}" for n, ms in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{_x(n):.1f}" cy="{_y(ms):.1f}" r="3" fill="{colour}"/>' for n, ms in points]
        parts.append(_text(LEFT + 12, TOP + 18 + 18 * i, mode, "start", colour))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    style = 'font-family="sans-serif" font-size="13"'
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    body = "\n".join((background, *parts))
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{body}\n</svg>\n'
