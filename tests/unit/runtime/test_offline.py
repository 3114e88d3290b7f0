"""Recordings to text with networks that are rules: what is stamped, and files that are damaged."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile
from pipeline_fakes import running, silence, tone

from cosyd.capture.file import Recording
from cosyd.config.paths import SHARED_MEMORY
from cosyd.config.schema import Config
from cosyd.errors import AudioError
from cosyd.runtime import offline
from cosyd.runtime.pipeline import Pipeline

RATE_HZ = 16_000


@pytest.fixture
def transcribe(monkeypatch: pytest.MonkeyPatch):
    """``offline.transcribe`` on fakes. Returns the finals and the errors."""

    @contextmanager
    def fakes(config, emit):
        with running(emit) as run:
            yield run.pipeline, dict

    monkeypatch.setattr(offline, "open_recognition", fakes)

    def transcribe(*files: Path, realtime: bool = False):
        finals = []
        failures = offline.transcribe(
            files, Config(), realtime=realtime, on_final=lambda file, final: finals.append((file, final))
        )
        assert not list(SHARED_MEMORY.glob(f"cosyd-transcribe-{os.getpid()}-*"))
        return finals, failures

    return transcribe


def recording(path: Path, utterances: int) -> Path:
    """One second of speech and one of silence, so many times."""
    once = np.concatenate((tone(1.0, RATE_HZ), silence(1.0, RATE_HZ)))
    soundfile.write(path, np.tile(once, (utterances, 1)), RATE_HZ)
    return path


def test_finals_are_stamped_as_a_publisher_would(transcribe, tmp_path: Path) -> None:
    before_s, before_ns = time.time(), time.monotonic_ns()
    one, two = recording(tmp_path / "one.wav", 2), recording(tmp_path / "two.wav", 1)
    finals, failures = transcribe(one, two)
    assert failures == []
    assert [(file, final.seq, final.n) for file, final in finals] == [(one, 1, 1), (one, 2, 2), (two, 3, 3)]
    assert len({final.boot for _, final in finals}) == 1
    assert all(len(final.boot) == 12 for _, final in finals)
    assert all(before_s <= final.t_wall <= time.time() for _, final in finals)
    assert all(before_ns <= final.t_mono_ns <= time.monotonic_ns() for _, final in finals)
    again, _ = transcribe(two)
    assert again[0][1].boot != finals[0][1].boot


@pytest.mark.parametrize("realtime", [False, True])
def test_latency_is_told_only_of_what_plays_in_real_time(transcribe, tmp_path: Path, realtime: bool) -> None:
    finals, _ = transcribe(recording(tmp_path / "one.wav", 1), realtime=realtime)
    assert [final.latency_ms > 0.0 for _, final in finals] == [realtime]


@pytest.fixture
def damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Makes a recording of four utterances that cannot be read beyond a time in seconds."""
    path = recording(tmp_path / "damaged.wav", 4)

    def make(at_s: float) -> Path:
        decode = Recording._decode

        def until_the_damage(self: Recording, frames: int):
            at = self._file.tell()
            if self.path == path and at + frames > at_s * RATE_HZ:
                raise AudioError(f"{path} is damaged at frame {at}: lost sync")
            return decode(self, frames)

        monkeypatch.setattr(Recording, "_decode", until_the_damage)
        return path

    return make


def test_what_comes_before_the_damage_is_transcribed(transcribe, damaged, tmp_path: Path) -> None:
    path, whole = damaged(at_s=6.0), recording(tmp_path / "whole.wav", 1)
    finals, failures = transcribe(path, whole)
    assert [file for file, _ in finals] == [path] * 3 + [whole]
    assert [round(final.end) for _, final in finals] == [1, 3, 5, 1]
    assert [str(failure) for failure in failures] == [f"{path} is damaged at frame 96000: lost sync"]


@pytest.mark.parametrize(("at_s", "ends"), [(0.8, [0.8]), (0.0, [])])
def test_damage_that_is_found_before_anybody_reads(
    transcribe, damaged, monkeypatch: pytest.MonkeyPatch, at_s: float, ends: list[float]
) -> None:
    """The player comes to it while the pipeline has not begun."""
    add_source = Pipeline.add_source

    def later(*args, **options) -> None:
        time.sleep(1.0)
        add_source(*args, **options)

    monkeypatch.setattr(Pipeline, "add_source", later)
    finals, failures = transcribe(damaged(at_s), realtime=True)
    assert [final.end for _, final in finals] == [pytest.approx(end, abs=0.05) for end in ends]
    assert len(failures) == 1


def test_a_file_that_cannot_be_opened(transcribe, tmp_path: Path) -> None:
    finals, failures = transcribe(tmp_path / "gone.wav", recording(tmp_path / "one.wav", 1))
    assert len(finals) == 1
    assert ["gone.wav" in str(failure) for failure in failures] == [True]
