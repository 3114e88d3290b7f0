"""The library on real speech: what it hears is what `cosyd transcribe` hears."""

from __future__ import annotations

from pathlib import Path

import soundfile

from cosyd import Pipeline
from cosyd.client import AsrFinal

CHUNK = 1_600
SECONDS = 9


def test_real_speech_becomes_text(models_dir: Path) -> None:
    recording = models_dir / "demo-speech" / "beckett.wav"
    rate_hz = soundfile.info(recording).samplerate
    audio, _ = soundfile.read(recording, frames=SECONDS * rate_hz, dtype="int16")
    settings = {"paths": {"models": str(models_dir)}, "gpu": {"backend": "cpu"}}
    events = []
    with Pipeline(settings, rate_hz=rate_hz) as pipeline:
        assert pipeline.backends["asr"].reason
        for start in range(0, len(audio), CHUNK):
            events += pipeline.push(audio[start : start + CHUNK])
        events += pipeline.finish()
    finals = [event for event in events if isinstance(event, AsrFinal)]
    text = " ".join(final.text for final in finals).lower()
    assert "ever tried" in text
    assert "ever failed" in text
    assert all(0 <= final.start < final.end <= SECONDS for final in finals)
