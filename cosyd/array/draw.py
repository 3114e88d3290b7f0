"""An array as text: where its microphones are, seen from above."""

from __future__ import annotations

import numpy as np

from cosyd.array.geometry import Geometry, wrap

WIDTH, HEIGHT = 41, 21  # characters; one is twice as high as wide


def draw(geometry: Geometry) -> list[str]:
    """Lines of a plan, x to the right, y up: each microphone by the device channel that it is."""
    points = np.array(geometry.positions)[:, :2]
    reach = max(float(np.abs(points).max()), 1e-3) * 1.15
    canvas = [[" "] * WIDTH for _ in range(HEIGHT)]
    middle_row, middle = HEIGHT // 2, WIDTH // 2
    for column in range(WIDTH):
        canvas[middle_row][column] = "·"
    for row in range(HEIGHT):
        canvas[row][middle] = "·"
    canvas[middle_row][WIDTH - 1] = ">"
    canvas[0][middle] = "^"
    for (x, y), channel in zip(points, geometry.channels, strict=True):
        row = middle_row - round(y / reach * middle_row)
        column = middle + round(x / reach * middle)
        for offset, character in enumerate(str(channel)):
            canvas[row][min(column + offset, WIDTH - 1)] = character
    lines = ["".join(row).rstrip() for row in canvas]
    lines[0] += "  y"
    lines[middle_row] += " x"
    return lines


def describe(geometry: Geometry) -> list[str]:
    """What there is to know before it is used, one line each."""
    shape = {1: "a line: front and back look the same", 2: "a plane: above and below look the same"}
    extent = len(geometry.axes)
    lines = [
        f"{geometry.microphones} microphones, {shape.get(extent, 'in space: all directions differ')}",
        f"+x of the device points to {wrap(geometry.orientation_deg):g} degrees in the room",
        f"directions are unambiguous up to {geometry.aliasing_hz:,.0f} Hz",
    ]
    if geometry.references:
        lines.append("what it plays: channels " + ", ".join(map(str, geometry.references)))
    return lines
