"""Asking the recogniser for what was taken from the line, again where it fails."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from cosyd.asr.decode import Decode
from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.second_opinion import reconsidered
from cosyd.asr.words import placed
from cosyd.errors import InferenceError
from cosyd.types import Transcript

log = logging.getLogger(__name__)

FINAL_ATTEMPTS = 2


@dataclass(frozen=True)
class Outcome:
    """A transcript, its words placed in the source clock, or why there is none."""

    transcript: Transcript | None
    error: str | None


def attempt(recognizer: SegmentRecognizer, decode: Decode, *, unsure: float = 0.0) -> Outcome:
    """Once for a partial, whose successor is on its way anyway; finals with a confidence below ``unsure``
    are decoded a second time."""
    request = _request(decode)
    reason = ""
    for _ in range(1 if decode.kind == "partial" else FINAL_ATTEMPTS):
        try:
            transcript = recognizer.transcribe([request])[0]
            if decode.kind != "partial":
                again, limit_s = recognizer.transcribe, recognizer.limit_s
                transcript = reconsidered(transcript, request, again, unsure=unsure, limit_s=limit_s)
            return Outcome(placed(transcript, decode.origin_s), None)
        except InferenceError as error:
            reason = str(error)
            log.error("%s of utterance %d of %s: %s", decode.kind, decode.utt, decode.source, reason)
    return Outcome(None, reason)


def _request(decode: Decode) -> SegmentRequest:
    return SegmentRequest(
        decode.audio,
        decode.prompt,
        decode.draft,
        hotwords=decode.hotwords,
        words=decode.words,
        quick=decode.kind == "partial",
        source=decode.source,
    )
