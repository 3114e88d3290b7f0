"""Hotwords through the running daemon: given by command, by file and by configuration, then spoken."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from listening import PATIENCE_S, Listening, is_

pytestmark = pytest.mark.timeout(300)

HEARD = "fell better"  # what is spoken is "fail better"


@pytest.fixture
def run(models_dir: Path, tmp_path: Path):
    recording = str(models_dir / "demo-speech" / "beckett.wav")
    (tmp_path / "hotwords.txt").write_text("# nothing yet\n")
    config = {
        "sources": [{"name": "mic", "type": "file", "path": recording, "loop": True}],
        "frontend": {"denoise": "off", "asr_input": "raw"},
        "asr": {
            "partial_ms": 0,
            "hotwords": ["try again", "x", "语音:2"],
            "hotwords_file": str(tmp_path / "hotwords.txt"),
        },
        "paths": {"models": str(models_dir)},
    }
    with Listening(config) as run:
        run.until(is_("state", source="mic", status="listening"))
        yield run


def test_a_phrase_is_added_and_then_heard(run: Listening) -> None:
    """Field case 23. The recogniser that heard it is the one that ran before: nothing was loaded again."""
    told = run.until(is_("health", code="hotwords_rejected"))
    assert "x: a single letter" in told["message"]
    assert "语音" in told["message"]
    assert run.control("hotwords")["hotwords"] == ["try again"]
    before = run.until(lambda m: m["type"] == "asr.final" and "better" in m["text"].lower())
    assert HEARD not in before["text"].lower()
    worker = run.pid("recognition")

    reply = run.control("hotwords", add=["fell:9", "fell better : 9", "latte:much"], source="mic")
    assert reply["accepted"] == ["fell:9", "fell better:9"]
    assert [item["phrase"] for item in reply["rejected"]] == ["latte:much"]
    assert "no score" in reply["rejected"][0]["reason"]
    assert reply["sources"] == {"mic": ["fell:9", "fell better:9"]}
    run.until(lambda m: m["type"] == "asr.final" and HEARD in m["text"].lower())
    assert run.pid("recognition") == worker

    os.kill(worker, signal.SIGKILL)
    run.until(is_("state", source="mic", status="restarting"))
    heard = len(run.messages)
    run.until(lambda m: m in run.messages[heard:] and m["type"] == "asr.final" and HEARD in m["text"].lower())
    assert run.pid("recognition") != worker


def test_lists_are_changed_shown_and_read_from_a_file_again(run: Listening, tmp_path: Path) -> None:
    run.until(is_("health", code="hotwords_rejected"))
    assert run.control("hotwords", remove=["TRY AGAIN", "no matter"])["rejected"] == [
        {"phrase": "no matter", "reason": "is not in the list"}
    ]
    assert run.control("hotwords", set=["no matter"])["hotwords"] == ["no matter"]
    (tmp_path / "hotwords.txt").write_text("ever tried:1.5\n")
    deadline = time.monotonic() + PATIENCE_S
    while (now := run.control("hotwords")["hotwords"]) != ["try again", "ever tried:1.5"]:
        assert time.monotonic() < deadline, now
        time.sleep(0.1)
    assert run.control("hotwords", set=[])["hotwords"] == []
