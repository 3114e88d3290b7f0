"""The directions that are looked at, as far as the array can tell them apart.

A line of microphones cannot tell a direction from its mirror images around the line, a plane not above from
below: of directions that look the same the grid has one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosyd.array.geometry import Geometry, Vectors, unit

STEP_DEG = 3.0  # in the plane; peaks are interpolated between
SPACE_DEG = 6.0  # between neighbours of the grid in space
_NEAR = 1.9  # neighbours are nearer than this many steps


@dataclass(frozen=True)
class Grid:
    """``neighbours`` [n, most]: indices of the directions around each one, itself where there are fewer."""

    directions: Vectors
    neighbours: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.directions)


def make_grid(geometry: Geometry, space: bool) -> Grid:
    """All directions in the plane or in space that ``geometry`` can tell apart."""
    directions: Vectors = _sphere() if space else unit(np.arange(0.0, 360.0, STEP_DEG))
    if len(geometry.axes) == 1:
        directions = _one_side(geometry.axes[0], directions, space)
    elif len(geometry.axes) == 2 and space:
        normal = np.cross(*geometry.axes)
        normal = -normal if normal[2] < 0 else normal
        directions = directions[directions @ normal >= -1e-9]
    return Grid(directions, _neighbours(directions, SPACE_DEG if space else STEP_DEG))


def _one_side(axis: Vectors, directions: Vectors, space: bool) -> Vectors:
    """Of a line: the half plane to the left of its axis, which in space is all that there is to know."""
    flat = unit(np.arange(0.0, 360.0, STEP_DEG)) if space else directions
    axis = axis if axis[0] > 0 or (abs(axis[0]) < 1e-9 and axis[1] > 0) else -axis
    left = np.array([-axis[1], axis[0], 0.0])
    return np.asarray(flat[flat @ left >= -1e-9])


def _sphere() -> Vectors:
    """Evenly spread directions (a golden spiral), about SPACE_DEG apart."""
    count = round(4 * np.pi / np.radians(SPACE_DEG) ** 2)
    index = np.arange(count) + 0.5
    z = 1 - 2 * index / count
    turn = np.pi * (1 + np.sqrt(5)) * index
    flat = np.sqrt(1 - z**2)
    return np.stack((flat * np.cos(turn), flat * np.sin(turn), z), axis=-1)


def _neighbours(directions: Vectors, step_deg: float) -> NDArray[np.intp]:
    near = directions @ directions.T > np.cos(np.radians(_NEAR * step_deg))
    np.fill_diagonal(near, False)
    most = int(near.sum(axis=1).max())
    found = np.repeat(np.arange(len(directions))[:, None], most, axis=1)
    for index, row in enumerate(near):
        around = np.flatnonzero(row)
        found[index, : len(around)] = around
    return found
