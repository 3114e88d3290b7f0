"""A piece of audio to be decoded, on its way from a listener to the recogniser and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.hotwords import Hotword
from cosyd.asr.window import Window
from cosyd.types import EndReason, Transcript

DecodeKind = Literal["partial", "speculative", "final"]


@dataclass(frozen=True, eq=False)
class Decode:
    """``audio`` float32 [n] at 16 kHz covers ``start_sample`` to ``end_sample`` of the source clock.

    ``id`` grows with every request of a listener. ``anchor`` and ``blocks``: where in the utterance the audio
    begins and ends, in front-end blocks; with a ``window`` it begins there. ``slack_s``: how long, in audio
    time, the result can wait (a speculative final is not needed before the endpoint). ``pause_s``: from the
    beginning of a partial's decode to that of the source's next one, at least.
    ``prompt``, ``draft``, ``hotwords`` and ``words`` as in SegmentRequest. ``start_sample`` is at
    ``origin_s`` seconds of the source clock. ``reason`` is a final's.
    """

    id: int
    source: str
    utt: int
    kind: DecodeKind
    audio: NDArray[np.float32]
    start_sample: int
    end_sample: int
    anchor: int
    blocks: int
    slack_s: float = 0.0
    pause_s: float = 0.0
    prompt: str = ""
    draft: tuple[int, ...] = ()
    hotwords: tuple[Hotword, ...] = ()
    words: bool = False
    origin_s: float = 0.0
    reason: EndReason | None = None
    window: Window | None = None


@dataclass(frozen=True, eq=False)
class DecodeResult:
    """``transcript`` or, when the recogniser failed, ``error``. ``decode_s``: of the wall clock."""

    decode: Decode
    transcript: Transcript | None
    error: str | None
    decode_s: float
