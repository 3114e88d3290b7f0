"""A streaming model and Moonshine on the same speech: partials of the one, finals of the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile

from cosyd import Pipeline
from cosyd.client import AsrFinal, AsrPartial
from cosyd.errors import ConfigError

REPOSITORY = Path(__file__).resolve().parents[2]
STREAMING = REPOSITORY.parent / "shared" / "models" / "streaming-ctc-tiny"
CHUNK = 1_600
SECONDS = 9


@pytest.fixture
def heard(models_dir: Path):
    """Events of the beginning of a real recording, by settings of ``asr``."""
    recording = models_dir / "demo-speech" / "beckett.wav"
    rate_hz = soundfile.info(recording).samplerate
    audio, _ = soundfile.read(recording, frames=SECONDS * rate_hz, dtype="int16")

    def hear(**asr):
        settings = {"paths": {"models": str(models_dir)}, "gpu": {"backend": "cpu"}, "asr": asr}
        with Pipeline(settings, rate_hz=rate_hz) as pipeline:
            events = [e for i in range(0, len(audio), CHUNK) for e in pipeline.push(audio[i : i + CHUNK])]
            return events + list(pipeline.finish())

    return hear


def finals(events):
    return [event for event in events if isinstance(event, AsrFinal)]


@pytest.mark.skipif(not STREAMING.exists(), reason="the example of a streaming model is not there")
def test_partials_of_one_model_and_finals_of_the_other(heard):
    events = heard(model=str(STREAMING), second_pass="moonshine-tiny-en", second_pass_ms=None)
    partials = [event for event in events if isinstance(event, AsrPartial)]
    assert partials
    assert {(event.pass_, event.model, event.stable) for event in partials} == {(1, str(STREAMING), "")}
    assert {(event.pass_, event.model) for event in finals(events)} == {(2, "moonshine-tiny-en")}
    for final in finals(events):
        assert [word.w for word in final.words] == final.text.split()
        assert all(final.start - 0.5 <= w.start <= w.end <= final.end + 0.5 for w in final.words)
    text = " ".join(final.text for final in finals(events)).lower()
    assert "ever tried" in text
    assert "ever failed" in text


@pytest.mark.skipif(not STREAMING.exists(), reason="the example of a streaming model is not there")
def test_a_second_pass_without_time_leaves_the_first(heard):
    events = heard(model=str(STREAMING), second_pass="moonshine-tiny-en", second_pass_ms=0)
    assert {(event.pass_, event.model) for event in finals(events)} == {(1, str(STREAMING))}


def test_a_second_pass_needs_a_streaming_first_one(heard):
    with pytest.raises(ConfigError, match=r"asr\.second_pass"):
        heard(second_pass="moonshine-tiny-en")
