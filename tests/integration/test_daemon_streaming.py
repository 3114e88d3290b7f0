"""A streaming model's folder as the daemon's recogniser: text that grows, finals once, whatever is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from listening import Listening, is_

pytestmark = pytest.mark.timeout(900)

PATIENCE_S = 300.0  # two models are loaded and a recording is played; machines of tests are slow and shared

OWN = Path(__file__).resolve().parents[3] / "shared" / "models" / "streaming-ctc-tiny"


@pytest.fixture
def config(models_dir: Path) -> dict[str, Any]:
    if not OWN.is_dir():
        pytest.skip(f"no {OWN}")
    recording = str(models_dir / "demo-speech" / "beckett.wav")
    return {
        "sources": [{"name": "talk", "type": "file", "path": recording}],
        "asr": {"model": str(OWN)},
        "paths": {"models": str(models_dir)},
    }


def said(messages: list[dict[str, Any]]) -> list[str]:
    return [m["text"] for m in messages if m["type"] == "asr.final"]


def check_promises(messages: list[dict[str, Any]]) -> None:
    stable: dict[int, str] = {}
    for m in messages:
        if m["type"] == "asr.partial":
            assert m["text"].startswith(m["stable"])
            assert m["stable"].startswith(stable.get(m["utt"], ""))
            stable[m["utt"]] = m["stable"]
        elif m["type"] == "asr.final":
            assert m["text"].startswith(stable.get(m["utt"], ""))
    utts = [m["utt"] for m in messages if m["type"] == "asr.final"]
    assert utts == sorted(set(utts))


def test_text_grows_and_survives_a_killed_recogniser(config: dict[str, Any]) -> None:
    with Listening(config) as run:
        run.until(is_("state", status="ended"), PATIENCE_S)
    whole = said(run.messages)
    assert len(whole) >= 2
    assert len(run.of("asr.partial")) > len(whole)
    check_promises(run.messages)
    words = [word for m in run.of("asr.final") for word in m["words"]]
    assert words
    assert [word["start"] for word in words] == sorted(word["start"] for word in words)
    assert run.of("state")[-1]["model"] == str(OWN)

    with Listening(config) as run:
        run.until(lambda m: m["type"] == "asr.partial" and bool(m["stable"]), PATIENCE_S)
        os.kill(run.pid("recognition"), signal.SIGKILL)
        run.until(is_("state", status="ended"), PATIENCE_S)
    check_promises(run.messages)
    assert said(run.messages)[1:] == whole[1:]
    assert len(said(run.messages)) == len(whole)


def test_a_folder_that_is_no_model_is_told_in_one_line(config: dict[str, Any], tmp_path: Path) -> None:
    from cosyd.errors import CosydError

    config["asr"] = {"model": str(tmp_path)}
    with pytest.raises(CosydError, match=r"tokens\.txt"), Listening(config) as run:
        run.until(is_("state", status="listening"), PATIENCE_S)
