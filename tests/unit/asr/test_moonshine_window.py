"""Partials of a long utterance with the real model: their window moves, and what they say stays right."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from cosyd.asr import window
from cosyd.asr.attempt import attempt
from cosyd.asr.decode import Decode
from cosyd.asr.listener import Listener
from cosyd.asr.moonshine import Moonshine
from cosyd.asr.stable import word_key
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Final, Partial, RecognitionEvent

SECONDS = 14
WINDOW_MS, KEEP_MS = 6_000, 3_000  # shorter than it is used, so that it moves in so short a recording
EVERY_MS = 1_000  # partials: enough to see it, few enough to be quick


def speech(models_dir: Path) -> np.ndarray:
    with wave.open(str(models_dir / "demo-speech" / "two_cities.wav")) as file:
        rate = file.getframerate()
        audio = np.frombuffer(file.readframes(SECONDS * rate), "<i2").astype(np.float32) / 32768
    places = np.arange(SECONDS * FRAME.rate_hz) * rate / FRAME.rate_hz
    return np.interp(places, np.arange(audio.size), audio).astype(np.float32)


def test_partials_stay_cheap_and_right(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "WINDOW_BLOCKS", FRAME.blocks(WINDOW_MS))
    monkeypatch.setattr(window, "KEEP_BLOCKS", FRAME.blocks(KEEP_MS))
    recognizer = Moonshine.load(models_dir / "moonshine-tiny-en")
    listener = Listener(
        VadConfig(), EndpointConfig(), AsrConfig(partial_ms=EVERY_MS), FRAME.rate_hz, source="mic"
    )
    audio = speech(models_dir)
    events: list[RecognitionEvent] = []
    heard: list[Decode] = []
    for block in range(audio.size // FRAME.block):
        first = block * FRAME.block
        for action in listener.accept(first, audio[first : first + FRAME.block], 0.9):
            if isinstance(action, Decode):
                heard.append(action)
                transcript = attempt(recognizer, action).transcript
                assert transcript is not None
                events += listener.decoded(action, transcript)
    for action in listener.finish("end_of_stream"):
        if isinstance(action, Decode):
            transcript = attempt(recognizer, action).transcript
            assert transcript is not None
            events += listener.decoded(action, transcript)
    lengths_ms = [1000 * decode.audio.size / FRAME.rate_hz for decode in heard]
    assert max(lengths_ms) <= WINDOW_MS + EVERY_MS + FRAME.block_ms
    assert len({decode.window.start for decode in heard if decode.window}) >= 3
    final = next(event for event in events if isinstance(event, Final))
    last = [event for event in events if isinstance(event, Partial)][-1]
    shown = [word_key(word) for word in last.text.split()]
    said = [word_key(word) for word in final.text.split()]
    assert len(shown) >= len(said) - 8
    wrong = sum(a != b for a, b in zip(shown, said, strict=False))
    assert wrong <= len(shown) // 6, (last.text, final.text)
