"""What the recogniser heard, as the messages that subscribers get."""

from __future__ import annotations

from typing import Any

from cosyd.publish import messages
from cosyd.runtime.ipc import Recognized
from cosyd.types import Final, Partial, SpeechEnded, SpeechStarted, Voice


def text_message(
    event: Partial | Final, message: Recognized, model: str, latency_s: float
) -> messages.AsrPartial | messages.AsrFinal:
    """``event`` is that of ``message``. ``model``: whose text it is, unless the event names another."""
    common: dict[str, Any] = {
        "source": message.source,
        "sample": event.end_sample,
        "utt": event.utt,
        "text": event.text,
        "start": round(event.start_sample / message.rate_hz, 3),
        "end": round(event.end_sample / message.rate_hz, 3),
        "conf": event.conf,
        "model": model,
        "latency_ms": round(latency_s * 1e3, 1),
    }
    if isinstance(event, Partial):
        return messages.AsrPartial(**common, stable=event.stable)
    if event.model:
        common |= {"model": event.model, "pass_": 2}
    return messages.AsrFinal(
        **common,
        words=tuple(messages.Word(word.w, word.start, word.end, word.conf) for word in event.words),
        reason=event.reason,
        more=event.more,
        direction=_direction(message.voice) if message.voice else None,
        written=event.written,
        others=event.others,
        language=event.language,
        language_conf=event.language_conf,
    )


def _direction(voice: Voice) -> messages.Direction:
    return messages.Direction(voice.azimuth_deg, voice.elevation_deg, voice.conf, voice.track, voice.zone)


def vad_message(source: str, event: SpeechStarted | SpeechEnded, prob: float) -> messages.Vad:
    kind = "start" if isinstance(event, SpeechStarted) else "end"
    return messages.Vad(source=source, sample=event.sample, event=kind, utt=event.utt, prob=prob)


def doa_message(source: str, sample: int, voice: Voice) -> messages.Doa:
    return messages.Doa(
        source=source,
        sample=sample,
        azimuth_deg=voice.azimuth_deg,
        elevation_deg=voice.elevation_deg,
        conf=voice.conf,
        track=voice.track,
        zone=voice.zone,
    )
