"""``cosyd array show`` and ``odas``: what people and viewers see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosyd.cli import main
from cosyd.cli.array_odas import FADE_S, Frames
from cosyd.client import Doa


def test_a_plan_shows_each_microphone_by_its_channel(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["array", "show", "--geometry", "respeaker-4"]) == 0
    plan = capsys.readouterr().out.splitlines()[:21]
    place = {
        character: (row, column)
        for row, line in enumerate(plan)
        for column, character in enumerate(line)
        if character in "1234"
    }
    assert place["1"][1] < 20 < place["3"][1]  # left and right
    assert place["4"][0] < 10 < place["2"][0]  # up and down
    assert place["1"][0] == place["3"][0] == 10


def test_a_source_s_own_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cosyd.yaml"
    file.write_text("sources: [{name: a, array: {positions_m: [[0, 0], [0.1, 0]], orientation_deg: 30}}]\n")
    assert main(["array", "show", "-c", str(file), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {
        "positions_m": [[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]],
        "channels": [0, 1],
        "reference_channels": [],
        "reference_source": None,
        "orientation_deg": 30.0,
        "aliasing_hz": 1715,
    }


def test_a_source_that_is_no_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cosyd.yaml"
    file.write_text("sources: [{name: a}]\n")
    assert main(["array", "show", "-c", str(file)]) == 2
    assert "source a is no microphone array" in capsys.readouterr().err


def doa(track: int, azimuth: float, at_s: float, conf: float = 0.5) -> Doa:
    return Doa(source="mic", track=track, azimuth_deg=azimuth, conf=conf, t_mono_ns=round(at_s * 1e9))


def test_a_frame_has_four_sources_those_not_there_with_id_0() -> None:
    frame = Frames().accept(doa(7, 90.0, 8.0))
    assert frame["timeStamp"] == 1000
    first, *others = frame["src"]  # type: ignore[misc]
    assert first == {"id": 7, "tag": "dynamic", "x": 0.0, "y": 1.0, "z": 0.0, "activity": 0.5}
    assert [source["id"] for source in others] == [0, 0, 0]


def test_voices_fade_and_only_the_loudest_are_shown() -> None:
    frames = Frames()
    for track in range(1, 7):
        frame = frames.accept(doa(track, 0.0, 1.0, conf=track / 10))
    assert [source["id"] for source in frame["src"]] == [3, 4, 5, 6]  # type: ignore[union-attr]
    frame = frames.accept(doa(9, 0.0, 1.1 + FADE_S))
    assert [source["id"] for source in frame["src"]] == [9, 0, 0, 0]  # type: ignore[union-attr]
