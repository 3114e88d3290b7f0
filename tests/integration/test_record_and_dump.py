"""Beside a running daemon: a recording of what it hears, a dump of what it heard, faults of channels."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from listening import Listening, is_

from cosyd.config.paths import ring_path
from cosyd.errors import ControlError
from cosyd.runtime.debug_tap import tap_path

pytestmark = pytest.mark.timeout(180)

RATE = 16_000


@pytest.fixture
def quad(models_dir: Path, tmp_path: Path) -> Path:
    """Speech in three channels of four; nothing in the third."""
    speech, rate = soundfile.read(models_dir / "demo-speech" / "beckett.wav", dtype="float32")
    noise = 0.003 * np.random.default_rng(2).standard_normal((len(speech), 4))
    frames = noise + speech[:, None] * np.array([1, 0.9, 0, 0.8])
    frames[:, 2] = 0
    soundfile.write(tmp_path / "quad.wav", frames, rate, subtype="PCM_16")
    return tmp_path / "quad.wav"


def test_recorded_beside_the_daemon_and_dumped_by_it(quad: Path, tmp_path: Path) -> None:
    settings = {"sources": [{"name": "talk", "type": "file", "path": str(quad), "loop": True}]}
    with Listening(settings) as run:
        run.until(is_("asr.final"))
        recorded = _record(run, tmp_path / "beside.wav")
        event = run.until(is_("device", event="channels"))
        assert event["reason"] == "channel 2 is silent"
        level = run.until(is_("level", faults=["channel 2 is silent"]))
        assert level["faults"] == ["channel 2 is silent"]
        assert run.control("status")["sources"][0]["faults"] == ["channel 2 is silent"]
        raw, asr = (_kept(tmp_path, file) for file in run.control("dump", seconds=2.0)["files"])
        run.control("mute", source="talk")
        with pytest.raises(ControlError, match="muted"):
            run.control("dump", source="talk")
    assert not tap_path(ring_path(run.daemon.paths, "talk")).exists()
    _is_a_stretch_of(quad, raw, 2.0)
    _is_a_stretch_of(quad, recorded, 1.5)
    heard, rate = soundfile.read(asr)
    assert rate == RATE and heard.shape[1] == 2 and 1.5 < len(heard) / rate <= 2.0
    assert heard[:, 1].min() >= 0 and heard[:, 1].max() <= 1


def _kept(folder: Path, file: str) -> Path:
    """A copy, with its JSON: the daemon's folder goes with it."""
    for path in (Path(file), Path(f"{file}.json")):
        shutil.copy(path, folder)
    return folder / Path(file).name


def _record(run: Listening, out: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "cosyd",
        "record",
        "-c",
        str(run.daemon.config_file),
        "--seconds",
        "1.5",
        "--out",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "beside the daemon" in done.stderr
    return out


def _is_a_stretch_of(original: Path, copy: Path, seconds: float) -> None:
    """Bit for bit, from exactly where its JSON file says."""
    source, rate = soundfile.read(original, dtype="int16")
    taken, _ = soundfile.read(copy, dtype="int16")
    facts = json.loads(copy.with_name(copy.name + ".json").read_text())
    assert len(taken) == round(seconds * rate) and facts["filled"] == []
    where = (facts["first_sample"] + np.arange(len(taken))) % len(source)
    assert np.array_equal(taken, source[where])
