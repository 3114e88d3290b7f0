"""Microphone arrays as data: the presets, and what makes an array's description impossible or doubtful.

Metres, right-handed; azimuth counter-clockwise from +x. The coordinates of devices are those of their makers'
drawings, as other open tools for them use them too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line names the presets and must not load pydantic
    from cosyd.config.schema import ArrayConfig

SPEED_OF_SOUND = 343.0  # m/s, in air of 20 °C
CLOSEST_M = 0.001  # microphones nearer than this are one: no direction can be told from their difference
FARTHEST_M = 2.0  # from the origin; sound crosses more than this in longer than a window of the analysis

MOST_GAIN_DB = 40.0  # that a calibration makes up for; more is a broken channel
MOST_DELAY_US = 5_000.0  # of a channel against another; more is another device

Position = tuple[float, float, float]


@dataclass(frozen=True)
class Preset:
    """``channels``: of the device, one a microphone. ``references``: channels that carry what is played."""

    positions: tuple[Position, ...]
    channels: tuple[int, ...]
    references: tuple[int, ...] = ()


def circle(count: int, radius_m: float, first_deg: float, step_deg: float) -> tuple[Position, ...]:
    """Microphones on a circle in the plane."""
    angles = (math.radians(first_deg + index * step_deg) for index in range(count))
    return tuple((round(radius_m * math.cos(a), 5), round(radius_m * math.sin(a), 5), 0.0) for a in angles)


def _row(count: int, spacing_m: float) -> tuple[Position, ...]:
    return tuple((round((index - (count - 1) / 2) * spacing_m, 5), 0.0, 0.0) for index in range(count))


PRESETS: dict[str, Preset] = {
    # Channel 0 is the device's own mix, 5 what it plays (firmware with 6 channels).
    "respeaker-4": Preset(circle(4, 0.032, 180, 90), (1, 2, 3, 4), (5,)),
    # ReSpeaker 6-Mic Circular Array Kit: channels 6 and 7 are what it plays.
    "respeaker-6": Preset(circle(6, 0.0463, 120, 60), (0, 1, 2, 3, 4, 5), (6, 7)),
    "linear-4": Preset(_row(4, 0.033), (0, 1, 2, 3)),
    # miniDSP UMA-8: one in the middle, six around it, clockwise.
    "uma-8": Preset(((0.0, 0.0, 0.0), *circle(6, 0.043, 90, -60)), (0, 1, 2, 3, 4, 5, 6)),
    # XMOS xCORE microphone array: the same circle, begun elsewhere.
    "xmos-7": Preset(((0.0, 0.0, 0.0), *circle(6, 0.043, 240, -60)), (0, 1, 2, 3, 4, 5, 6)),
    "square-4": Preset(circle(4, 0.0325, 45, 90), (0, 1, 2, 3)),
}


def positions_of(array: ArrayConfig) -> tuple[Position, ...]:
    """x, y, z of each microphone in metres, of the device, before it is turned."""
    if array.positions_m is not None:
        return tuple(as_position(numbers) for numbers in array.positions_m)
    return PRESETS[array.geometry].positions


def channels_of(array: ArrayConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The channels of the microphones, and those that carry what is played.

    Of the device itself: where another source captures what is played, none.
    """
    preset = PRESETS.get(array.geometry)
    own = preset.channels if preset else tuple(range(len(array.positions_m or ())))
    references = preset.references if preset else ()
    if array.reference_source is not None:
        references = ()
    elif array.reference_channels is not None:
        references = array.reference_channels
    return own if array.channels is None else array.channels, references


def as_position(numbers: Sequence[float]) -> Position:
    """x, y and, where it is given, z."""
    x, y, *z = numbers
    return float(x), float(y), float(z[0]) if z else 0.0


def aliasing_hz(positions: Sequence[Position]) -> float:
    """Frequency above which two directions can look the same: half a wave between nearest neighbours.

    Of each microphone the nearest neighbour counts, and of these distances the largest: c / 2d.
    """
    spacing = max(min(math.dist(a, b) for b in positions if b is not a) for a in positions)
    return SPEED_OF_SOUND / (2 * spacing)


def faults_of_positions(positions: Sequence[Sequence[float]]) -> Iterator[str]:
    """What makes these coordinates (metres) impossible."""
    for index, numbers in enumerate(positions):
        if len(numbers) not in (2, 3):
            yield f"microphone {index} needs x and y, and z if it is not 0; it has {len(numbers)} numbers"
        elif not all(math.isfinite(number) for number in numbers):
            yield f"microphone {index}: {list(numbers)} are no coordinates"
        elif math.hypot(*numbers) > FARTHEST_M:
            yield (
                f"microphone {index} is {math.hypot(*numbers):.3g} m from the origin, at most "
                f"{FARTHEST_M:g} m are possible; coordinates are in metres"
            )
    sound = {i: as_position(numbers) for i, numbers in enumerate(positions) if len(numbers) in (2, 3)}
    for first, second in combinations(sound, 2):
        if math.dist(sound[first], sound[second]) < CLOSEST_M:
            yield f"microphones {first} and {second} are in the same place"


def faults_of_channels(
    channels: Sequence[int], references: Sequence[int], microphones: int, available: int | None
) -> Iterator[str]:
    """What is wrong with a map of ``microphones`` channels; ``available``: what the device has, if known."""
    if len(channels) != microphones:
        yield f"{len(channels)} channels for {microphones} microphones; there must be one for each"
    used = [*channels, *references]
    for channel in sorted({channel for channel in used if used.count(channel) > 1}):
        yield f"channel {channel} is used twice"
    beyond = [channel for channel in used if channel < 0 or (available is not None and channel >= available)]
    for channel in beyond:
        limit = f"they are 0 to {available - 1}" if available else "they count from 0"
        yield f"no channel {channel}: {limit}"


def faults_of_calibration(
    gains_db: Sequence[float] | None, delays_us: Sequence[float] | None, microphones: int
) -> Iterator[tuple[str, str]]:
    """Key and what is wrong with it."""
    limits = (("gains_db", gains_db, MOST_GAIN_DB), ("delays_us", delays_us, MOST_DELAY_US))
    for key, values, most in limits:
        if values is None:
            continue
        if len(values) != microphones:
            yield key, f"{len(values)} values for {microphones} microphones; there must be one for each"
        for index, value in enumerate(values):
            if not abs(value) <= most:
                yield key, f"microphone {index}: {value:g} is beyond {most:g} either way"
