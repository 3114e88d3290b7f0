"""Sectors of the room to listen to or to ignore."""

from __future__ import annotations

from collections.abc import Sequence

from cosyd.config.schema import ZoneConfig


def within(zone: ZoneConfig, azimuth_deg: float) -> bool:
    """Whether a direction lies in the sector, which goes counter-clockwise from its beginning."""
    width = (zone.to_deg - zone.from_deg) % 360.0 or 360.0
    return (azimuth_deg - zone.from_deg) % 360.0 <= width


def zone_of(zones: Sequence[ZoneConfig], azimuth_deg: float) -> ZoneConfig | None:
    """The first sector that the direction lies in."""
    return next((zone for zone in zones if within(zone, azimuth_deg)), None)


def heard(zones: Sequence[ZoneConfig], azimuth_deg: float) -> bool:
    """Whether to listen there: in no sector to be ignored, and in one to listen to where there are such."""
    found = zone_of(zones, azimuth_deg)
    if found is not None:
        return found.listen
    return not any(zone.listen for zone in zones)
