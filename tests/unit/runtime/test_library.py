"""The recogniser as a library, on networks that are rules: any size of push, faults, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from pipeline_fakes import LoudnessRecognizer, running, silence, tone

import cosyd
from cosyd import AsyncPipeline, Pipeline
from cosyd.client import AsrFinal, Level, Vad
from cosyd.config.paths import SHARED_MEMORY
from cosyd.config.schema import Config
from cosyd.errors import AudioError, ConfigError, CosydError
from cosyd.runtime.private_ring import private_ring

RATE_HZ = 16_000
SPEECH = np.concatenate(
    (silence(0.5, RATE_HZ), tone(1.0, RATE_HZ), silence(1.5, RATE_HZ), tone(0.6, RATE_HZ))
)


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    """Networks that are rules; whatever happens, no ring stays."""

    @contextmanager
    def fakes(config, emit):
        with running(emit) as run:
            yield run.pipeline, dict

    monkeypatch.setattr("cosyd.pipeline.open_recognition", fakes)
    yield
    assert not list(SHARED_MEMORY.glob(f"cosyd-library-{os.getpid()}-*"))


def heard(chunks, **options):
    with Pipeline(Config(), **options) as pipeline:
        events = [event for chunk in chunks for event in pipeline.push(chunk)]
        return events + list(pipeline.finish())


def finals(events):
    return [(e.utt, e.text, e.start, e.end, e.reason) for e in events if isinstance(e, AsrFinal)]


@pytest.mark.parametrize("size", [101, 4_000, len(SPEECH)])
def test_the_size_of_the_chunks_changes_no_final(size):
    events = heard(SPEECH[i : i + size] for i in range(0, len(SPEECH), size))
    whole = finals(heard([SPEECH]))
    assert finals(events) == whole
    assert [reason for *_, reason in whole] == ["silence", "end_of_stream"]
    assert [e.event for e in events if isinstance(e, Vad)] == ["start", "end"] * 2
    assert any(isinstance(e, Level) for e in events)


def test_events_are_numbered_and_named_as_a_daemon_does():
    events = heard([SPEECH], source="desk")
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert {e.source for e in events} == {"desk"}
    last = [e for e in events if isinstance(e, AsrFinal)][-1]
    assert (last.topic, last.n) == ("asr.final.desk", 2)


@pytest.mark.parametrize(
    "kind", [lambda s: s.tobytes(), lambda s: s[:, 0], lambda s: (s / np.float32(32768)).astype(np.float32)]
)
def test_any_kind_of_samples_gives_the_same(kind):
    assert finals(heard([kind(SPEECH)])) == finals(heard([SPEECH]))


def test_channels_and_rates_are_those_of_the_audio():
    wide = np.repeat(tone(1.0, 48_000), 2, axis=1)
    ((_, _, start, end, _),) = finals(heard([wide], rate_hz=48_000, channels=2))
    assert start == pytest.approx(0, abs=0.05)
    assert end == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("pcm", "what"),
    [
        (np.zeros(10), "float64"),
        (np.zeros((10, 3), np.int16), r"\[10, 3\]"),
        (np.zeros(3, np.int16), "whole frames"),
        (np.zeros((4, 2), np.float32), "began with s16"),
    ],
)
def test_what_is_no_such_audio_is_refused_and_harms_nothing(pcm, what):
    with Pipeline(Config(), channels=2) as pipeline:
        pipeline.push(np.zeros((160, 2), np.int16))
        with pytest.raises(AudioError, match=what):
            pipeline.push(pcm)
        pipeline.push(np.repeat(tone(0.6, RATE_HZ), 2, axis=1))
        assert len(finals(pipeline.finish())) == 1


def test_use_out_of_order_is_refused():
    pipeline = Pipeline(Config())
    with pytest.raises(CosydError, match="not open"):
        pipeline.push(SPEECH)
    with pipeline:
        list(pipeline.finish())
        with pytest.raises(CosydError, match="finished"):
            pipeline.push(SPEECH)
    with pytest.raises(CosydError, match="opened before"):
        pipeline.open()
    pipeline.close()


@pytest.fixture
def asked(monkeypatch):
    """All that the recogniser was asked for."""
    requests = []
    transcribe = LoudnessRecognizer.transcribe

    def noting(self, batch):
        requests.extend(batch)
        return transcribe(self, batch)

    monkeypatch.setattr(LoudnessRecognizer, "transcribe", noting)
    return requests


def test_what_is_not_finished_is_dropped(asked):
    """Nobody speaks his last word yet, so that nothing but ``finish`` makes it a final."""
    with Pipeline(Config()) as pipeline:
        pipeline.push(tone(1.0, RATE_HZ))
    assert all(request.quick for request in asked)
    with Pipeline(Config()) as pipeline:
        pipeline.push(tone(1.0, RATE_HZ))
        assert len(finals(pipeline.finish())) == 1
    assert [request.quick for request in asked].count(False) == 1


def test_a_stream_that_is_closed_while_it_ends_has_nothing_more_to_say():
    with Pipeline(Config()) as pipeline:
        pipeline.push(SPEECH)
        rest = pipeline.finish()
        next(rest)
    assert len(finals(rest)) <= 2
    assert list(rest) == []


def test_faults_of_a_dictionary_come_all_at_once():
    with pytest.raises(ConfigError) as caught:
        Pipeline({"vad": {"threshold": 2}, "asr": {"modle": "x"}})
    assert "vad.threshold" in str(caught.value)
    assert "modle" in str(caught.value)


def test_a_file_is_read_as_the_daemon_reads_it(tmp_path: Path):
    file = tmp_path / "cosyd.yaml"
    file.write_text(
        "vad: {threshold: 0.45}\nsources: [{name: desk, type: pipe, path: '-', rate_hz: 16000}]\n"
    )
    with Pipeline(file, source="desk") as pipeline:
        assert pipeline._config.vad.threshold == 0.45
        assert pipeline._source.type == "pipe"


def test_asyncio():
    async def listen():
        async with AsyncPipeline(Config()) as pipeline:
            events = await pipeline.push(SPEECH)
            events += await pipeline.events()
            return events + [event async for event in pipeline.finish()]

    assert finals(asyncio.run(listen())) == finals(heard([SPEECH]))


def test_asyncio_out_of_order_is_refused():
    with pytest.raises(CosydError, match="async with"):
        asyncio.run(AsyncPipeline(Config()).push(SPEECH))


def test_importing_cosyd_loads_nothing():
    ours = "{m for m in sys.modules if m.startswith('cosyd.')}"
    code = f"import cosyd, sys; assert {ours} == {{'cosyd.version'}}"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = cosyd.Pipelin


def test_rings_of_killed_processes_are_cleared_away():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = SHARED_MEMORY / f"cosyd-library-{gone.pid}-0.ring"
    left.touch()
    ours = SHARED_MEMORY / f"cosyd-library-{os.getpid()}-x.ring"
    ours.touch()
    try:
        private_ring("library")
        assert ours.exists()
        assert not left.exists()
    finally:
        ours.unlink()
