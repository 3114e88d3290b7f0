"""Faults of channels: made, found by name, and gone again; healthy arrays are left alone."""

from __future__ import annotations

import numpy as np
import pytest
from array_sound import at_microphones
from echo_scene import RATE, Real, babble, hiss

from cosyd.array.geometry import Geometry
from cosyd.array.health import LOOK_S, PAUSE_S, PERSISTENT, ChannelWatch, examine
from cosyd.config.schema import ArrayConfig

FOUR = Geometry.of(ArrayConfig(geometry="square-4"))
SEVEN = Geometry.of(ArrayConfig(geometry="uma-8"))
LINE = Geometry.of(ArrayConfig(geometry="linear-4"))


def ambient(channels: int, seconds: float = 1.0) -> Real:
    """The same room at all microphones, as far as levels go."""
    return (hiss((round(seconds * RATE), channels), seed=3, db=-50)).astype(np.float32)


def codes(frames: Real, channels: int = 4, matched: bool = True) -> list[tuple[str, tuple[int, ...]]]:
    return [(fault.code, fault.channels) for fault in examine(frames, range(channels), matched)]


def test_a_healthy_array_has_no_faults() -> None:
    assert codes(ambient(4)) == []


def test_silent_channel() -> None:
    frames = ambient(4)
    frames[:, 2] = 0
    assert codes(frames) == [("silent", (2,))]


def test_silence_everywhere_is_no_fault_of_a_channel() -> None:
    assert codes(np.zeros((8_000, 4), np.float32)) == []


def test_clipped_channel() -> None:
    frames = ambient(4)
    frames[:, 1] = np.clip(1.2 * np.sin(2 * np.pi * 440 / RATE * np.arange(len(frames))), -1, 1)
    assert codes(frames, matched=False) == [("clipped", (1,))]


def test_constant_part() -> None:
    frames = ambient(4)
    frames[:, 3] -= 0.03
    (fault,) = examine(frames, range(4), matched=True)
    assert (fault.code, fault.channels) == ("dc", (3,)) and "-3.0 %" in fault.message


@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_duplicated_channel(gain: float) -> None:
    frames = ambient(4)
    frames[:, 3] = gain * frames[:, 1]
    assert ("duplicate", (1, 3)) in codes(frames)


@pytest.mark.parametrize("gain_db", [-9.0, 9.0])
def test_uneven_gain(gain_db: float) -> None:
    frames = ambient(4)
    frames[:, 0] *= 10 ** (gain_db / 20)
    assert codes(frames) == [("gain", (0,))]
    assert codes(frames, matched=False) == []


def test_only_the_mapped_channels_are_judged() -> None:
    frames = ambient(4)
    frames[:, 3] = 0
    assert [fault.code for fault in examine(frames, (0, 1, 2), matched=True)] == []


# --- while it runs ---


def feed(watch: ChannelWatch, frames: Real, piece: int = 160) -> list[tuple[str, tuple[int, ...]]]:
    for at in range(0, len(frames), piece):
        watch.accept(frames[at : at + piece])
    return [(fault.code, fault.channels) for fault in watch.faults]


def test_a_fault_counts_when_it_persists_and_goes_when_it_is_mended() -> None:
    watch = ChannelWatch(RATE, range(4))
    broken = ambient(4, PERSISTENT * (LOOK_S + PAUSE_S))
    broken[:, 2] = 0
    assert feed(watch, broken[: round((LOOK_S + PAUSE_S) * RATE)]) == []
    assert feed(watch, broken) == [("silent", (2,))]
    assert feed(watch, ambient(4, PERSISTENT * (LOOK_S + PAUSE_S))) == []


def test_changes_are_told_once() -> None:
    watch = ChannelWatch(RATE, range(4))
    frames = ambient(4, 20.0)
    frames[:, 2] = 0
    changes = [watch.accept(frames[at : at + 1600]) for at in range(0, len(frames), 1600)]
    assert sum(changes) == 1


# --- order and delay, from speech around the array ---


def talkers(
    geometry: Geometry, directions: int = 10, seconds: float = 0.5, rate_hz: int = RATE
) -> list[Real]:
    """Frames [n, all channels of the device] of one voice after the other, all around."""
    looks = []
    for index in range(directions):
        voice = babble(seconds, 100 + index)
        azimuth = 360 * index / directions + 7
        sound = at_microphones(voice, geometry, azimuth, rate_hz) + hiss((len(voice), geometry.microphones))
        frames = np.zeros((len(sound), max(geometry.channels) + 1), np.float32)
        frames[:, geometry.channels] = sound
        looks.append(frames)
    return looks


def judged(geometry: Geometry, looks: list[Real], rate_hz: int = RATE) -> list[tuple[str, tuple[int, ...]]]:
    watch = ChannelWatch(rate_hz, geometry.channels, geometry)
    for _ in range(2):
        for look in looks:
            watch.accept(look)
            watch._waiting = 0  # the pause between looks is audio that nobody looks at
    return [(fault.code, fault.channels) for fault in watch.faults]


@pytest.mark.parametrize("geometry", [FOUR, SEVEN, LINE])
def test_channels_in_order_are_left_alone(geometry: Geometry) -> None:
    assert judged(geometry, talkers(geometry)) == []


@pytest.mark.parametrize(
    ("geometry", "pair"), [(SEVEN, (1, 4)), (SEVEN, (0, 3)), (LINE, (0, 1)), (FOUR, (0, 1))]
)
def test_swapped_channels(geometry: Geometry, pair: tuple[int, int]) -> None:
    looks = talkers(geometry)
    i, j = (geometry.channels[k] for k in pair)
    for look in looks:
        look[:, [i, j]] = look[:, [j, i]]
    assert judged(geometry, looks) == [("swapped", (i, j))]


def test_what_cannot_be_told_apart_is_named_together() -> None:
    looks = talkers(FOUR)
    for look in looks:
        look[:, [0, 1]] = look[:, [1, 0]]
    watch = ChannelWatch(RATE, FOUR.channels, FOUR)
    for look in looks:
        watch.accept(look)
        watch._waiting = 0
    (fault,) = watch.faults
    assert fault.message == "channels 0 and 1, or 2 and 3 are swapped"  # a reflection of one another


@pytest.mark.parametrize("samples", [6, -6])
def test_late_channel(samples: int) -> None:
    looks = talkers(SEVEN)
    for look in looks:
        look[:, 3] = np.roll(look[:, 3], samples)
    assert judged(SEVEN, looks) == [("late", (3,))]
