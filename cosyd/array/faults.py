"""What can be wrong with a channel, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """``code``: silent, clipped, dc, duplicate, gain, swapped, late. ``channels``: of the device, from 0."""

    code: str
    channels: tuple[int, ...]
    message: str
