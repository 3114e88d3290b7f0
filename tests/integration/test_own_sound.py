"""What the device itself plays is not transcribed, and what is said right after it is (field case 16)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from scipy.signal import fftconvolve, resample_poly

from cosyd import Pipeline
from cosyd.client import AsrFinal, AsrPartial
from cosyd.spec import FRAME

RATE = FRAME.rate_hz
CHUNK = 1_600
BEEP_S, BEEP_HZ, BEEP_AT_S = 0.5, 1_000, 1.0
SPEECH_AT_S = BEEP_AT_S + BEEP_S + 0.05
MICROPHONES = 4
SOURCE = {
    "name": "kiosk",
    "array": {"geometry": "square-4", "channels": [0, 1, 2, 3], "reference_channels": [MICROPHONES]},
}

Real = NDArray[np.float32]


def beep() -> Real:
    t = np.arange(round(BEEP_S * RATE)) / RATE
    edges = np.clip(np.minimum(t, BEEP_S - t) / 0.005, 0, 1)
    return (0.3 * edges * np.sin(2 * np.pi * BEEP_HZ * t)).astype(np.float32)


def room(random: np.random.Generator) -> Real:
    """From the loudspeaker to each microphone: straight, then 0.3 s of what the walls give back."""
    n = round(0.3 * RATE)
    paths = 0.1 * random.standard_normal((MICROPHONES, n)) * np.exp(-6.9 * np.arange(n) / n)
    paths[:, 40] = 1.0
    return paths.astype(np.float32)


def kiosk(seconds: float, said: Real) -> Real:
    """[n, microphones and reference]: a beep from the device, and what is said 50 ms after it."""
    random = np.random.default_rng(16)
    n = round(seconds * RATE)
    played = np.zeros(n, np.float32)
    at = round(BEEP_AT_S * RATE)
    played[at : at + round(BEEP_S * RATE)] = beep()
    heard = np.stack([fftconvolve(played, path)[:n] for path in room(random)])
    heard += 2e-4 * random.standard_normal(heard.shape)
    at = round(SPEECH_AT_S * RATE)
    heard[:, at : at + len(said)] += said[: n - at]
    return np.concatenate([heard, played[None]]).T.astype(np.float32)


def texts(audio: Real, models_dir: Path) -> list[str]:
    settings = {"paths": {"models": str(models_dir)}, "gpu": {"backend": "cpu"}, "sources": [SOURCE]}
    events = []
    with Pipeline(settings, rate_hz=RATE, channels=MICROPHONES + 1, source="kiosk") as pipeline:
        for start in range(0, len(audio), CHUNK):
            events += pipeline.push(audio[start : start + CHUNK])
        events += pipeline.finish()
    return [event.text.lower() for event in events if isinstance(event, AsrFinal | AsrPartial)]


@pytest.fixture(scope="module")
def speech(models_dir: Path) -> Real:
    """From the first sound of the recording on."""
    voice, rate_hz = soundfile.read(models_dir / "demo-speech" / "beckett.wav", dtype="float64")
    voice = resample_poly(voice, RATE, rate_hz).astype(np.float32)
    return voice[np.flatnonzero(np.abs(voice) > 0.02)[0] :]


def test_a_beep_is_no_text(models_dir: Path) -> None:
    assert texts(kiosk(4.0, np.zeros(0, np.float32)), models_dir) == []


def test_the_first_word_right_after_it_is_kept(models_dir: Path, speech: Real) -> None:
    final = texts(kiosk(8.0, speech[: 5 * RATE]), models_dir)[-1]
    assert final.startswith("ever ")
    assert "ever failed" in final
