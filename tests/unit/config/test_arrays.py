"""Faults of a microphone array's description are named, all at once, at their line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from cosyd.config import arrays
from cosyd.config.load import load, named_files
from cosyd.config.schema import ArrayConfig
from cosyd.errors import ConfigError


def problems(folder: Path, array: str) -> list[str]:
    file = folder / "cosyd.yaml"
    file.write_text(f"sources:\n  - name: mic\n    channels: 6\n    array:\n{array}")
    try:
        load(named_files([file]), environ={})
    except ConfigError as error:
        return [line.removeprefix(str(file)) for line in error.problems]
    return []


@pytest.mark.parametrize("name", arrays.PRESETS)
def test_presets_are_possible(name: str) -> None:
    preset = arrays.PRESETS[name]
    assert list(arrays.faults_of_positions(preset.positions)) == []
    assert not list(
        arrays.faults_of_channels(preset.channels, preset.references, len(preset.positions), None)
    )
    assert arrays.positions_of(ArrayConfig(geometry=name)) == preset.positions  # type: ignore[arg-type]


def test_known_devices() -> None:
    """The coordinates that ODAS ships for these devices, to the millimetre."""
    respeaker = [(-0.032, 0), (0, -0.032), (0.032, 0), (0, 0.032)]
    for ours, theirs in zip(arrays.PRESETS["respeaker-4"].positions, respeaker, strict=True):
        assert math.dist(ours[:2], theirs) < 1e-3
    six = [
        (-0.0232, 0.0401),
        (-0.0463, 0),
        (-0.0232, -0.0401),
        (0.0232, -0.0401),
        (0.0463, 0),
        (0.0232, 0.0401),
    ]
    for ours, theirs in zip(arrays.PRESETS["respeaker-6"].positions, six, strict=True):
        assert math.dist(ours[:2], theirs) < 1e-3
    uma = [
        (0, 0),
        (0, 0.043),
        (0.037, 0.021),
        (0.037, -0.021),
        (0, -0.043),
        (-0.037, -0.021),
        (-0.037, 0.021),
    ]
    for ours, theirs in zip(arrays.PRESETS["uma-8"].positions, uma, strict=True):
        assert math.dist(ours[:2], theirs) < 1e-3


def test_aliasing_limit_is_half_a_wave_between_neighbours() -> None:
    assert arrays.aliasing_hz(arrays.PRESETS["linear-4"].positions) == pytest.approx(343 / 0.066)
    assert arrays.aliasing_hz([(0, 0, 0), (0.1, 0, 0)]) == pytest.approx(1715)


def test_a_sound_array_has_no_faults(tmp_path: Path) -> None:
    assert problems(tmp_path, "      geometry: respeaker-4\n") == []
    assert problems(tmp_path, "      positions_m: [[0, 0], [0.05, 0, 0.01]]\n") == []


def test_every_fault_is_named_at_its_line(tmp_path: Path) -> None:
    text = (
        "      positions_m: [[0, 0], [0.05, 0], [0.05, 0, 0], [40, 0]]\n"
        "      channels: [0, 1, 1, 7]\n      reference_channels: [0]\n"
    )
    assert problems(tmp_path, text) == [
        ":5: sources.mic.array.positions_m: microphone 3 is 40 m from the origin, at most 2 m are possible; "
        "coordinates are in metres",
        ":5: sources.mic.array.positions_m: microphones 1 and 2 are in the same place",
        ":6: sources.mic.array.channels: channel 0 is used twice",
        ":6: sources.mic.array.channels: channel 1 is used twice",
        ":6: sources.mic.array.channels: no channel 7: they are 0 to 5",
    ]


def test_a_map_out_of_the_device_s_range_is_named_where_it_stands(tmp_path: Path) -> None:
    assert problems(tmp_path, "      geometry: uma-8\n") == [
        ":5: sources.mic.array.channels: no channel 6: they are 0 to 5"
    ]


def test_geometry_and_positions_exclude_each_other(tmp_path: Path) -> None:
    assert (
        "has its own" in problems(tmp_path, "      geometry: uma-8\n      positions_m: [[0, 0], [1, 0]]\n")[0]
    )
    assert "needs the positions" in problems(tmp_path, "      doa: 2d\n")[0]
    assert "2 to 32 microphones" in problems(tmp_path, "      positions_m: [[0, 0]]\n")[0]


def test_zones_have_names_of_their_own(tmp_path: Path) -> None:
    zones = "      geometry: square-4\n      zones: [{name: tv}, {name: tv, listen: false}]\n"
    assert problems(tmp_path, zones) == [":6: sources.mic.array.zones: a second zone named 'tv'"]


def test_a_calibration_has_a_value_for_each_microphone(tmp_path: Path) -> None:
    text = "      geometry: square-4\n      gains_db: [0, 1]\n      delays_us: [0, 0, 9000, .nan]\n"
    assert problems(tmp_path, text) == [
        ":6: sources.mic.array.gains_db: 2 values for 4 microphones; there must be one for each",
        ":7: sources.mic.array.delays_us: microphone 2: 9000 is beyond 5000 either way",
        ":7: sources.mic.array.delays_us: microphone 3: nan is beyond 5000 either way",
    ]


@pytest.mark.parametrize(
    ("others", "reference", "what"),
    [
        ("", "{reference_source: tv}", "'tv' is no other source; others: there is none"),
        ("", "{reference_source: mic}", "'mic' is no other source"),
        (
            "  - {name: tv, type: file, path: x.wav, realtime: false}\n",
            "{reference_source: tv}",
            "a file needs realtime: true",
        ),
        (
            "  - {name: tv, channels: 2}\n",
            "{reference_source: tv, reference_channels: [0, 2]}",
            "'tv' has no channel 2: they are 0 to 1",
        ),
    ],
)
def test_a_reference_that_another_source_cannot_be_is_named(
    tmp_path: Path, others: str, reference: str, what: str
) -> None:
    file = tmp_path / "cosyd.yaml"
    array = "{geometry: square-4, " + reference[1:]
    file.write_text(f"sources:\n  - name: mic\n    channels: 4\n    array: {array}\n{others}")
    with pytest.raises(ConfigError) as caught:
        load(named_files([file]), environ={})
    assert what in "\n".join(caught.value.problems)


def test_where_another_source_is_the_reference_no_channel_of_the_device_is() -> None:
    array = ArrayConfig(geometry="respeaker-4", reference_source="tv", reference_channels=(0, 1))
    assert arrays.channels_of(array) == ((1, 2, 3, 4), ())
