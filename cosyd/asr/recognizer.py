"""What every recogniser looks like to the rest of the daemon.

Two families. A *segment* recogniser turns a whole piece of audio into text (Moonshine, Whisper); partials
are made by asking it again with more audio. A *streaming* recogniser keeps a state per stream and grows
its text as audio comes (transducers, CTC): ``streaming.recognizer``, which has streams instead of requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.types import Backend, Transcript

Audio = NDArray[np.float32]


@dataclass(frozen=True)
class SegmentRequest:
    """One piece of audio to decode: float32 mono in ±1 at 16 kHz.

    ``prompt``: words already promised to the listener; the result's text begins with them, at a word
    boundary, but for case and marks. ``draft``: tokens that an earlier result on a shorter piece of the same
    audio had; they only save time, a recogniser may check them instead of finding them one by one, and never
    change the result, but for a quick one.
    ``hotwords``: phrases to favour. ``words``: times and confidences of words are wanted, where the model
    gives them; times are seconds from the beginning of the audio. ``quick``: a result to be shown for a
    moment, which need not be the best there is; it may keep what the draft says where that is nearly as
    likely. ``source``: whose audio a quick one's is; what was heard for the last one may serve for the next.
    """

    audio: Audio
    prompt: str = ""
    draft: tuple[int, ...] = ()
    hotwords: tuple[Hotword, ...] = ()
    words: bool = False
    quick: bool = False
    source: str = ""


class Recognizer(Protocol):
    """Common to both families."""

    family: Literal["segment", "streaming"]

    @property
    def name(self) -> str: ...

    @property
    def backend(self) -> Backend: ...

    def warm_up(self) -> None:
        """Run once, so that the first utterance is as fast as the thousandth."""
        ...

    def close(self) -> None: ...


class SegmentRecognizer(Recognizer, Protocol):
    """Whole pieces of audio."""

    @property
    def limit_s(self) -> float:
        """Longest piece that the model takes, in seconds."""
        ...

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        """Decode a batch. Raises InferenceError when the network fails."""
        ...

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        """Those of these phrases that would have no effect, and why. May be called from any thread."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A recogniser that may be much slower than others: what it is doing has hung only after so long."""

    @property
    def patience_s(self) -> float: ...
