"""Where the microphones are, and what a plane wave from a direction does at them.

Right-handed coordinates in metres; azimuth counter-clockwise from +x, elevation up from the x-y plane, both
in degrees. Inside this package directions are the device's; ``Geometry.in_room`` turns them as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.config.arrays import SPEED_OF_SOUND, aliasing_hz, channels_of, positions_of
from cosyd.config.schema import ArrayConfig
from cosyd.errors import UnsupportedFormat

_FLAT_M = 1e-4  # microphones this near to a line or plane lie in it

Vectors = NDArray[np.float64]  # [n, 3]


@dataclass(frozen=True)
class Geometry:
    """An array. ``channels``: of the device, one a microphone; ``references``: those that it plays."""

    positions: tuple[tuple[float, float, float], ...]
    channels: tuple[int, ...]
    references: tuple[int, ...] = ()
    orientation_deg: float = 0.0

    @classmethod
    def of(cls, config: ArrayConfig) -> Geometry:
        """The one that is configured."""
        return cls(positions_of(config), *channels_of(config), config.orientation_deg)

    @property
    def microphones(self) -> int:
        return len(self.positions)

    @cached_property
    def centred(self) -> Vectors:
        """[microphones, 3], from their centre: the point to which phases refer."""
        points = np.array(self.positions, np.float64)
        return np.asarray(points - points.mean(axis=0))

    @cached_property
    def pairs(self) -> NDArray[np.intp]:
        """[pairs, 2]: each two microphones once."""
        return np.array(list(combinations(range(self.microphones), 2)), np.intp)

    @property
    def aliasing_hz(self) -> float:
        """Above this frequency two directions can look the same to neighbouring microphones."""
        return aliasing_hz(self.positions)

    @cached_property
    def axes(self) -> Vectors:
        """[n, 3]: orthogonal directions in which the array extends; n is 1 for a line, 2 for a plane."""
        _, sizes, directions = np.linalg.svd(self.centred, full_matrices=False)
        return np.asarray(directions[sizes > _FLAT_M])

    def require(self, channels: int) -> None:
        """Raises UnsupportedFormat when a device of so many channels has not all that are mapped."""
        beyond = [c for c in (*self.channels, *self.references) if c >= channels]
        if beyond:
            raise UnsupportedFormat(
                f"array: channel {beyond[0]} is mapped, but the source has channels 0 to {channels - 1}; "
                "correct array.channels, array.reference_channels or array.geometry"
            )

    def leads(self, directions: Vectors) -> NDArray[np.float64]:
        """[n, 3] -> [n, microphones]: seconds by which a wave from there reaches each before the centre."""
        return np.asarray(directions @ self.centred.T / SPEED_OF_SOUND)

    def steering(
        self, directions: Vectors, frequencies_hz: NDArray[np.floating[Any]]
    ) -> NDArray[np.complex128]:
        """[n, 3], [f] -> [n, f, microphones]: a plane wave's phasors at the microphones, 1 at the centre."""
        turns = frequencies_hz[None, :, None] * self.leads(directions)[:, None, :]
        return np.asarray(np.exp(2j * np.pi * turns))

    def in_room(self, azimuth_deg: float) -> float:
        """A direction of the device as one of the room, -180 to 180."""
        return wrap(azimuth_deg + self.orientation_deg)

    def in_device(self, azimuth_deg: float) -> float:
        """A direction of the room as one of the device."""
        return wrap(azimuth_deg - self.orientation_deg)


def wrap(degrees: float) -> float:
    """The same angle in [-180, 180)."""
    return (degrees + 180.0) % 360.0 - 180.0


Angles = float | NDArray[np.float64]


def unit(azimuth_deg: Angles, elevation_deg: Angles = 0.0) -> Vectors:
    """Angles to unit vectors [..., 3]."""
    azimuth, elevation = np.broadcast_arrays(np.radians(azimuth_deg), np.radians(elevation_deg))
    flat = np.cos(elevation)
    return np.stack((flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)), axis=-1)


def angles(direction: NDArray[np.float64]) -> tuple[float, float]:
    """A vector [3] to azimuth and elevation."""
    x, y, z = (float(value) for value in direction)
    return float(np.degrees(np.arctan2(y, x))), float(np.degrees(np.arctan2(z, np.hypot(x, y))))


def between(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Degrees between two unit vectors [3]."""
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)))
