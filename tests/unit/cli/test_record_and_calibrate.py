"""``cosyd record`` and ``cosyd array calibrate`` on recordings, from the command line to the files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cosyd.cli import main
from cosyd.config.load import load, named_files


def noise(seconds: float, channels: int, rate: int = 16_000) -> np.ndarray:
    random = np.random.default_rng(4)
    return (0.02 * random.standard_normal((round(seconds * rate), channels))).astype(np.float32)


@pytest.fixture
def four(tmp_path: Path) -> tuple[Path, Path]:
    """A recording of four channels, the third 6 dB quieter, and a configuration with comments."""
    sound = noise(7, 4)
    sound[:, 2] *= 0.5
    recording, config = tmp_path / "room.wav", tmp_path / "cosyd.yaml"
    soundfile.write(recording, sound, 16_000, subtype="FLOAT")
    config.write_text("# mine\nsources:\n  - name: desk\n    array: {geometry: square-4}  # bought in May\n")
    return recording, config


def test_raw_is_the_recording_itself(four: tuple[Path, Path], tmp_path: Path) -> None:
    recording, config = four
    out = tmp_path / "out.wav"
    assert main(["record", "-c", str(config), "--file", str(recording), "--out", str(out)]) == 0
    (ours, rate), (theirs, _) = (soundfile.read(p, dtype="float32") for p in (out, recording))
    assert rate == 16_000 and np.array_equal(ours, theirs)
    facts = json.loads(Path(f"{out}.json").read_text())
    assert (facts["source"], facts["tap"], facts["first_sample"], facts["filled"]) == ("desk", "raw", 0, [])


def test_seconds_and_flac(tmp_path: Path) -> None:
    recording, out = tmp_path / "a.wav", tmp_path / "b.flac"
    soundfile.write(recording, noise(2, 2, 44_100), 44_100, subtype="PCM_16")
    assert main(["record", "--file", str(recording), "--seconds", "0.5", "--out", str(out)]) == 0
    (ours, rate), (theirs, _) = (soundfile.read(p, dtype="int16") for p in (out, recording))
    assert rate == 44_100 and np.array_equal(ours, theirs[:22_050])


def test_what_exists_is_kept(
    four: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, _ = four
    assert main(["record", "--file", str(recording), "--out", str(recording)]) == 3
    assert "exists already" in capsys.readouterr().err


def test_a_recording_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["record", "--file", str(tmp_path / "no.wav"), "--out", str(tmp_path / "x.wav")]
    assert main(arguments) == 3
    assert "no.wav" in capsys.readouterr().err and not (tmp_path / "x.wav").exists()


def test_calibration_becomes_configuration(four: tuple[Path, Path], tmp_path: Path) -> None:
    recording, config = four
    before = config.read_text()
    out = tmp_path / "60-calibration-desk.yaml"
    arguments = ["array", "calibrate", "-c", str(config), "--file", str(recording), "--out", str(out)]
    assert main(arguments) == 0
    assert config.read_text() == before
    array = load(named_files([config, out]), environ={}).config.sources[0].array
    assert array is not None and array.geometry == "square-4" and array.gains_db is not None
    assert array.gains_db == pytest.approx((0, 0, 6, 0), abs=0.3)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_calibration_as_json_writes_nothing(
    four: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, config = four
    arguments = ["array", "calibrate", "-c", str(config), "--file", str(recording), "--dry-run", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["gains_db"][2] == pytest.approx(6, abs=0.3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cosyd.yaml", "room.wav"]


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        (["--set", "sources.desk.array=null"], "has no array"),
        ([], "name the file"),
        (["--from", "x"], "degrees"),
    ],
)
def test_wrong_usage(
    four: tuple[Path, Path], extra: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, config = four
    assert main(["array", "calibrate", "-c", str(config), "--file", str(recording), *extra]) == 2
    assert complaint in capsys.readouterr().err
