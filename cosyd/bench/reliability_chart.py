"""Reliability diagrams as SVG: the share of right words over the confidence they were given.

A model whose confidences mean what they say is on the diagonal. One panel a model, one line for its own
probabilities and one for what is told to users; a dot's area is its number of words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cosyd.asr.confidence import Bin

SIDE, GAP, LEFT, TOP, BOTTOM, RIGHT = 230, 46, 52, 46, 58, 16
RAW, TOLD = "#c2410c", "#1f5fa8"
DOT = 5.0  # radius of a dot with a tenth of the words
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Panel:
    """``raw`` and ``told``: bins of the same words, ``raw_error`` and ``told_error``: of calibration."""

    title: str
    raw: Sequence[Bin]
    told: Sequence[Bin]
    raw_error: float
    told_error: float


def reliability_chart(panels: Sequence[Panel]) -> str:
    """All panels in one row."""
    width = LEFT + len(panels) * SIDE + (len(panels) - 1) * GAP + RIGHT
    height = TOP + SIDE + BOTTOM
    parts = [f'<rect width="{width}" height="{height}" fill="white"/>']
    for number, panel in enumerate(panels):
        parts += _panel(panel, LEFT + number * (SIDE + GAP))
    parts.append(_text(width / 2, height - 8, "confidence", "middle"))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join((head, *parts, "</svg>\n"))


def _panel(panel: Panel, left: float) -> list[str]:
    parts = [_text(left, TOP - 26, panel.title, "start")]
    for tick in TICKS:
        x, y = left + SIDE * tick, TOP + SIDE * (1 - tick)
        parts.append(_line((left, y), (left + SIDE, y)))
        parts.append(_line((x, TOP), (x, TOP + SIDE)))
        parts.append(_text(left - 6, y + 4, f"{tick:g}", "end"))
        parts.append(_text(x, TOP + SIDE + 16, f"{tick:g}", "middle"))
    parts.append(_line((left, TOP + SIDE), (left + SIDE, TOP), "#888", 'stroke-dasharray="4 3"'))
    parts += _bins(panel.raw, left, RAW)
    parts += _bins(panel.told, left, TOLD)
    parts.append(_text(left, TOP - 10, f"own: off by {panel.raw_error:.3f}", "start", RAW))
    parts.append(_text(left + SIDE, TOP - 10, f"told: {panel.told_error:.3f}", "end", TOLD))
    return parts


def _bins(bins: Sequence[Bin], left: float, colour: str) -> list[str]:
    total = sum(each.count for each in bins)
    points = [(left + SIDE * each.confidence, TOP + SIDE * (1 - each.right), each.count) for each in bins]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>']
    for x, y, count in points:
        radius = DOT * math.sqrt(10 * count / total)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}"/>')
    return parts


def _line(start: tuple[float, float], end: tuple[float, float], colour: str = "#ddd", more: str = "") -> str:
    (a, b), (c, d) = start, end
    return f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" stroke="{colour}" {more}/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
