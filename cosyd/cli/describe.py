"""Messages as lines for people."""

from __future__ import annotations

import time

from cosyd.cli.common import printable
from cosyd.client import (
    AnyMessage,
    AsrFinal,
    AsrPartial,
    Device,
    Doa,
    Health,
    Level,
    State,
    Vad,
    Wake,
)


def describe(message: AnyMessage) -> str:
    """``12:30:05.123  asr.final    mic  12.30–14.05 s  hello  (silence, 84 ms)``"""
    at = clock(message.t_wall)
    return printable(f"{at}  {message.type:<11}  {message.source}  {details(message)}".rstrip())


def clock(t_wall: float) -> str:
    """Local time of day, to the millisecond."""
    whole = int(t_wall)
    return time.strftime("%H:%M:%S", time.localtime(whole)) + f".{int((t_wall - whole) * 1000):03d}"


def details(message: AnyMessage) -> str:
    """What a message says beyond its type and source."""
    if isinstance(message, AsrFinal):
        return f"{_span(message)}  {message.shown}  ({message.reason}, {message.latency_ms:.0f} ms)"
    if isinstance(message, AsrPartial):
        return f"{_span(message)}  {message.stable}|{message.text[len(message.stable) :]}"
    if isinstance(message, Vad):
        return f"speech {message.event}, utterance {message.utt}, probability {message.prob:.2f}"
    if isinstance(message, Level):
        levels = " ".join(f"{value:.1f}" for value in message.rms_db)
        return f"{levels} dBFS, vad {message.vad_prob:.2f}{', clipped' if message.clipped else ''}"
    return _rare(message)


def _rare(message: Doa | Wake | State | Health | Device) -> str:
    if isinstance(message, State):
        about = [message.device, _format(message), message.model, message.reason]
        return ", ".join([message.status, *filter(None, about)])
    if isinstance(message, Health):
        return f"{message.severity}: {message.message} [{message.code}]"
    if isinstance(message, Device):
        frames = f"{message.frames} frames" if message.frames else ""
        return ", ".join([message.event, *filter(None, (message.device, frames, message.reason))])
    if isinstance(message, Wake):
        return f"{message.word} at {message.start:.2f} s"
    return f"{message.azimuth_deg:.0f}°"


def _span(message: AsrFinal | AsrPartial) -> str:
    return f"{message.start:.2f}–{message.end:.2f} s"


def _format(state: State) -> str:
    return f"{state.rate_hz} Hz, {state.channels} ch, {state.format}" if state.rate_hz else ""
