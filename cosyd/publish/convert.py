"""From what the workers report (``cosyd.types``) to what subscribers read (``publish.messages``)."""

from __future__ import annotations

from cosyd import types
from cosyd.publish import messages


def partial_message(
    source: str, partial: types.Partial, rate_hz: int, model: str, latency_ms: float
) -> messages.AsrPartial:
    return messages.AsrPartial(
        source=source,
        sample=partial.end_sample,
        utt=partial.utt,
        text=partial.text,
        stable=partial.stable,
        start=partial.start_sample / rate_hz,
        end=partial.end_sample / rate_hz,
        conf=partial.conf,
        model=model,
        latency_ms=latency_ms,
    )


def final_message(
    source: str, final: types.Final, rate_hz: int, model: str, latency_ms: float
) -> messages.AsrFinal:
    return messages.AsrFinal(
        source=source,
        sample=final.end_sample,
        utt=final.utt,
        text=final.text,
        start=final.start_sample / rate_hz,
        end=final.end_sample / rate_hz,
        words=tuple(messages.Word(word.w, word.start, word.end, word.conf) for word in final.words),
        conf=final.conf,
        model=model,
        latency_ms=latency_ms,
        reason=final.reason,
        more=final.more,
    )


def vad_message(
    source: str, event: types.SpeechStarted | types.SpeechEnded, prob: float = 0.0
) -> messages.Vad:
    kind = "start" if isinstance(event, types.SpeechStarted) else "end"
    return messages.Vad(source=source, sample=event.sample, event=kind, utt=event.utt, prob=prob)


def level_message(source: str, level: types.Level) -> messages.Level:
    return messages.Level(
        source=source,
        sample=level.sample,
        rms_db=level.rms_db,
        peak_db=level.peak_db,
        vad_prob=level.vad_prob,
        clipped=level.clipped,
    )


def health_message(health: types.Health, source: str = messages.DAEMON, sample: int = 0) -> messages.Health:
    return messages.Health(
        source=source,
        sample=sample,
        code=health.code,
        severity=health.severity,
        message=health.message,
        details=dict(health.details),
    )


def device_message(
    source: str, event: types.DeviceOpened | types.DeviceLost | types.GapRecorded | types.SourceEnded
) -> messages.Device:
    match event:
        case types.DeviceOpened(sample=sample, device=device):
            return messages.Device(source=source, sample=sample, event="opened", device=device)
        case types.DeviceLost(sample=sample, reason=reason):
            return messages.Device(source=source, sample=sample, event="lost", reason=reason)
        case types.GapRecorded(sample=sample, frames=frames):
            return messages.Device(source=source, sample=sample, event="gap", frames=frames)
        case types.SourceEnded(sample=sample):
            return messages.Device(source=source, sample=sample, event="ended")
