"""Mandarin out of the box: real speech through the command and through the library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from difflib import SequenceMatcher
from pathlib import Path

import pytest
import soundfile

from cosyd import Pipeline
from cosyd.bench.chinese import bare
from cosyd.client import AsrFinal

CLIPS = {"00001.flac": "想听歌曲魔法城堡", "00003.flac": "但迄今未能联络到这两张照片的所有者"}
PATIENCE_S = 100.0
ALIKE = 0.6  # of two texts, at least; how well the whole set is heard is in docs/benchmarks/languages.md


@pytest.fixture(scope="module")
def clips(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str]]:
    """Recordings and what is said in them."""
    folder = tmp_path_factory.mktemp("aishell")
    with tarfile.open(shared_data / "eval" / "aishell.tar") as archive:
        for member in archive.getmembers():
            if (name := Path(member.name).name) in CLIPS:
                content = archive.extractfile(member)
                assert content is not None
                (folder / name).write_bytes(content.read())
    return [(folder / name, text) for name, text in CLIPS.items()]


def alike(text: str, said: str) -> float:
    return SequenceMatcher(None, text, bare(said), autojunk=False).ratio()


def test_transcribe(whisper_base: Path, clips: list[tuple[Path, str]], tmp_path: Path) -> None:
    """With nothing but the language said: a model that hears it is taken, and named on standard error."""
    pytest.importorskip("opencc", reason="OpenCC is not installed: pip install cosyd[text]")
    path, text = clips[0]
    folders = {"models": whisper_base.parent, "cache": tmp_path, "runtime": tmp_path, "state": tmp_path}
    environment = {f"COSYD_PATHS__{name.upper()}": str(folder) for name, folder in folders.items()}
    command = [sys.executable, "-m", "cosyd", "transcribe", "--language", "zh", "--json", str(path)]
    done = subprocess.run(
        [*command, "--set", "text.script=simplified"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "using whisper-base" in done.stderr
    finals = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(final["language"], final["language_conf"]) for final in finals} == {("zh", None)}
    assert alike(text, "".join(final["written"] for final in finals)) > ALIKE
    for final in finals:
        words = final["words"]
        assert "".join(word["w"] for word in words) == "".join(final["text"].split())
        assert all(final["start"] - 0.5 <= w["start"] <= w["end"] <= final["end"] + 0.5 for w in words)


def test_the_library_finds_out_what_is_spoken(whisper_base: Path, clips: list[tuple[Path, str]]) -> None:
    path, text = clips[1]
    audio, rate_hz = soundfile.read(path, dtype="int16")
    settings = {
        "paths": {"models": str(whisper_base.parent)},
        "gpu": {"backend": "cpu"},
        "asr": {"model": "whisper-base", "beam": 1},
    }
    with Pipeline(settings, rate_hz=rate_hz) as pipeline:
        events = [*pipeline.push(audio), *pipeline.finish()]
    finals = [event for event in events if isinstance(event, AsrFinal)]
    assert {(final.language, final.model) for final in finals} == {("zh", "whisper-base")}
    assert all(0.5 < (final.language_conf or 0) <= 1 for final in finals)
    assert 0.7 < len(bare("".join(final.text for final in finals))) / len(text) < 1.4
