"""When each word was said, from where Moonshine's decoder looked as it wrote.

Few of the 48 heads of cross-attention follow the speech, and they follow different things: after a token has
been said, one looks at where that token *ended*, two look at where the next one *begins* (found on spliced
recordings of ``train/synthetic`` and ``train/kathleen``, whose joints are known to the sample). Each is
followed by the likeliest path of frames that never goes back. Errors: ``cosyd bench words``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.spec import FRAME

Array = NDArray[Any]
Audio = NDArray[np.float32]

HEADS = 8  # a layer
_END_HEAD = 3 * HEADS + 1
_START_HEADS = (4 * HEADS + 6, 3 * HEADS + 0)
_HOP = 384  # samples from one frame of the encoder to the next: its strides 64 * 3 * 2
_CENTRE = 447  # middle of the first frame: the convolutions see 895 samples
_START_LATE_S = 0.020  # the heads for beginnings look so much behind them
_UNLIKELY = 1e-4  # a frame that is not looked at at all costs no more than this
_SHORTEST_S = 0.02
_LEVEL_S = 0.01
_SILENT = 1e-10  # mean square of digital silence
_SPAN_DB = 30.0  # what is further below the loudest of the first word is before it
_QUIET_PERCENT, _ABOVE_DB = 10, 10.0  # and so is what is hardly louder than the quiet before
_LONGEST_FIRST_S = 1.2  # no first word is longer; what is before it is noise
_USUAL_FIRST_S = 0.3
_PAUSE_FRAMES = 10  # 100 ms of quiet is longer than any closure inside a word


@dataclass(frozen=True)
class Span:
    """Seconds from the beginning of the audio."""

    start: float
    end: float


def spans(attention: Array, last: Sequence[int], inside: Sequence[int], audio: Audio) -> list[Span]:
    """One for each word.

    ``attention`` [heads of all layers, tokens + 1, frames] as of ``Decoder.attention``. For each word
    ``last`` is its last token, ``inside`` the last of it that is spoken, not a comma.
    """
    # Before anything is said, the network looks nowhere in particular.
    ends = _times(attention[_END_HEAD, 1:])
    starts = _times(attention[_START_HEADS, 1:].mean(axis=0)) - _START_LATE_S
    length = audio.size / FRAME.rate_hz
    found: list[Span] = []
    at = 0.0
    for i, (before, token) in enumerate(zip([-1, *last], inside, strict=False)):
        end = min(max(float(ends[token]), at + _SHORTEST_S), length)
        start = _onset(audio, end) if i == 0 else float(starts[before])
        start = min(max(start, at), max(at, end - _SHORTEST_S))
        found.append(Span(start, end))
        at = end
    return found


def _times(attention: Array) -> NDArray[np.float64]:
    """Seconds of the likeliest frames, one a row of [rows, frames], that never go back."""
    scores = np.log(attention.astype(np.float64) + _UNLIKELY)
    best = scores[0]
    origins: list[NDArray[np.intp]] = []
    for row in scores[1:]:
        reached = np.maximum.accumulate(best)
        origins.append(np.maximum.accumulate(np.where(best == reached, np.arange(best.size), 0)))
        best = reached + row
    frames = [int(best.argmax())]
    for origin in reversed(origins):
        frames.append(int(origin[frames[-1]]))
    return (np.array(frames[::-1], np.float64) * _HOP + _CENTRE) / FRAME.rate_hz


def _onset(audio: Audio, end: float) -> float:
    """Where the sound begins that ends at ``end``: louder than what is quiet before it, without a pause."""
    hop = int(_LEVEL_S * FRAME.rate_hz)
    first = max(0, int((end - _LONGEST_FIRST_S) * FRAME.rate_hz) // hop)
    frames = audio[first * hop : int(end * FRAME.rate_hz) // hop * hop].reshape(-1, hop)
    if not len(frames):
        return 0.0
    level_db = 10 * np.log10(np.square(frames, dtype=np.float64).mean(axis=1) + _SILENT)
    quiet_db = float(np.percentile(level_db, _QUIET_PERCENT))
    loud = np.flatnonzero(level_db > max(level_db.max() - _SPAN_DB, quiet_db + _ABOVE_DB))
    if not loud.size:  # as loud all the time: the window says nothing
        return max(0.0, end - _USUAL_FIRST_S)
    pauses = np.flatnonzero(np.diff(loud) > _PAUSE_FRAMES)
    begin = int(loud[pauses[-1] + 1] if pauses.size else loud[0])
    return (first + begin) * _LEVEL_S
