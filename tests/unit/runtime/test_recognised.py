"""What was recognised, as subscribers get it."""

from __future__ import annotations

import pytest

from cosyd.publish import messages
from cosyd.runtime.ipc import Recognized
from cosyd.runtime.recognised import doa_message, text_message, vad_message
from cosyd.types import Checkpoint, Final, Partial, SpeechEnded, SpeechStarted, Voice, Word

VOICE = Voice(3, -33.25, 12.0, 0.9, "tv")


def message_of(event: Partial | Final, voice: Voice | None = None) -> messages.AsrPartial | messages.AsrFinal:
    recognized = Recognized("mic", event, Checkpoint(), rate_hz=48_000, voice=voice)
    return text_message(event, recognized, "first", 0.12345)


def test_a_partial() -> None:
    message = message_of(Partial(4, "hello wor", "hello", 24_000, 60_000), VOICE)
    assert isinstance(message, messages.AsrPartial)
    assert (message.topic, message.utt, message.sample) == ("asr.partial.mic", 4, 60_000)
    assert (message.text, message.stable) == ("hello wor", "hello")
    assert (message.start, message.end, message.latency_ms) == (0.5, 1.25, 123.5)
    assert (message.model, message.pass_) == ("first", 1)


def test_a_final_of_a_voice_with_words() -> None:
    event = Final(
        4,
        "hello",
        24_000,
        60_000,
        "silence",
        90_000,
        0.8,
        (Word("hello", 0.5, 0.9, 0.7),),
        others=("yellow",),
    )
    message = message_of(event, VOICE)
    assert isinstance(message, messages.AsrFinal)
    assert message.words == (messages.Word("hello", 0.5, 0.9, 0.7),)
    assert message.direction == messages.Direction(-33.25, 12.0, 0.9, 3, "tv")
    assert (message.reason, message.conf, message.others) == ("silence", 0.8, ("yellow",))
    assert message_of(event).direction is None  # type: ignore[union-attr]


def test_a_text_of_the_second_pass_names_its_model() -> None:
    message = message_of(Final(4, "hello", 0, 1, "silence", 1, model="second"))
    assert (message.model, message.pass_) == ("second", 2)


@pytest.mark.parametrize(("event", "kind"), [(SpeechStarted(7, 2), "start"), (SpeechEnded(7, 2), "end")])
def test_beginnings_and_ends(event: SpeechStarted | SpeechEnded, kind: str) -> None:
    expected = messages.Vad(source="mic", sample=7, event=kind, utt=2, prob=0.75)
    assert vad_message("mic", event, 0.75) == expected


def test_a_voice() -> None:
    message = doa_message("mic", 99, VOICE)
    assert (message.source, message.sample, message.track, message.zone) == ("mic", 99, 3, "tv")
    assert (message.azimuth_deg, message.elevation_deg, message.conf) == (-33.25, 12.0, 0.9)
