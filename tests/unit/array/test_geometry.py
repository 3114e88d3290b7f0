"""Directions, phases and what an array can tell apart."""

from __future__ import annotations

import numpy as np
import pytest
from array_waves import geometry

from cosyd.array.geometry import Geometry, angles, between, unit, wrap
from cosyd.array.grid import SPACE_DEG, STEP_DEG, make_grid
from cosyd.config.arrays import SPEED_OF_SOUND
from cosyd.errors import UnsupportedFormat


def test_azimuth_goes_counter_clockwise_from_x_and_elevation_up() -> None:
    assert unit(0.0) == pytest.approx([1, 0, 0])
    assert unit(90.0) == pytest.approx([0, 1, 0], abs=1e-12)
    assert unit(0.0, 90.0) == pytest.approx([0, 0, 1], abs=1e-12)
    assert angles(unit(-130.0, 35.0)) == pytest.approx((-130.0, 35.0))
    assert between(unit(10.0), unit(350.0)) == pytest.approx(20.0)
    assert [wrap(a) for a in (180.0, -180.0, 359.0, 540.0, -190.0)] == [-180, -180, -1, -180, 170]


def test_a_plane_wave_has_the_phase_of_its_path() -> None:
    """Two microphones 10 cm apart on x, a wave from +x: the near one hears it 5 cm early."""
    pair = Geometry(((-0.05, 0, 0), (0.05, 0, 0)), (0, 1))
    phasors = pair.steering(unit(0.0)[None], np.array([1000.0]))[0, 0]
    turn = 2 * np.pi * 1000 * 0.05 / SPEED_OF_SOUND
    assert phasors == pytest.approx([np.exp(-1j * turn), np.exp(1j * turn)])
    across = pair.steering(unit(90.0)[None], np.array([1000.0]))[0, 0]
    assert across == pytest.approx([1, 1])
    slanted = pair.steering(unit(60.0)[None], np.array([1000.0]))[0, 0]
    assert slanted[1] == pytest.approx(np.exp(1j * turn * np.cos(np.radians(60))))


def test_the_device_may_stand_turned_in_the_room() -> None:
    turned = geometry("square-4", orientation_deg=90.0)
    assert turned.in_room(170.0) == -100.0
    assert turned.in_device(turned.in_room(12.5)) == 12.5


def test_channels_that_a_device_has_not_are_named() -> None:
    geometry("respeaker-4").require(6)
    with pytest.raises(UnsupportedFormat, match="channel 5 is mapped, but the source has channels 0 to 4"):
        geometry("respeaker-4").require(5)


def test_a_grid_has_no_two_directions_that_the_array_cannot_tell_apart() -> None:
    plane, line = geometry("square-4"), geometry("linear-4")
    assert len(make_grid(plane, space=False)) == 360 / STEP_DEG
    half = make_grid(line, space=False).directions
    assert len(half) == 180 / STEP_DEG + 1 and half[:, 1].min() > -1e-6
    above = make_grid(plane, space=True).directions
    assert above[:, 2].min() >= -1e-9
    everywhere = make_grid(Geometry(((0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)), (0, 1, 2, 3)), True)
    assert len(everywhere) == pytest.approx(2 * len(above), rel=0.05)


def test_every_direction_in_space_is_near_one_of_the_grid() -> None:
    grid = make_grid(geometry("uma-8"), space=True).directions
    for azimuth in range(0, 360, 20):
        for elevation in (0, 20, 45, 80):
            nearest = max(grid @ unit(float(azimuth), float(elevation)))
            assert np.degrees(np.arccos(min(1.0, nearest))) < SPACE_DEG


def test_neighbours_are_near_and_mutual() -> None:
    grid = make_grid(geometry("uma-8"), space=True)
    for index, around in enumerate(grid.neighbours):
        for other in set(map(int, around)) - {index}:
            assert index in grid.neighbours[other]
            assert between(grid.directions[index], grid.directions[other]) < 2 * SPACE_DEG
