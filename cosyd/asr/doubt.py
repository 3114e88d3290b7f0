"""Texts that are more likely made up than heard.

An encoder-decoder always says something, also of noise. How sure it is tells (Moonshine tiny, confidence of
whole results): real speech 0.53 and more on 170 recordings; kitchen, tap, dishes and white noise mostly 0.1
to 0.47. The gate is the first guard; this is the second, for what gets through it.
"""

from __future__ import annotations

from cosyd.spec import FRAME
from cosyd.types import Transcript

LEAST_CONF = 0.35  # speech in loud noise still has more
SHORT_MS = 400  # a burst so short is more often a knock than a word ...
LEAST_CONF_SHORT = 0.5  # ... so more is asked of it


def doubtful(transcript: Transcript, speech_blocks: int) -> bool:
    """``speech_blocks``: how much of the audio was speech, by the gate."""
    if transcript.conf is None:
        return False
    short = speech_blocks * FRAME.block_ms < SHORT_MS
    return transcript.conf < (LEAST_CONF_SHORT if short else LEAST_CONF)


def believed(transcript: Transcript, speech_blocks: int) -> Transcript:
    """The result, or an empty one where it is doubtful."""
    return Transcript("") if doubtful(transcript, speech_blocks) else transcript
