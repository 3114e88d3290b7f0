"""Who spoke when, from where: what an utterance is told about its direction, and when voices are told of."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cosyd.array.geometry import angles, unit
from cosyd.spec import FRAME
from cosyd.types import Voice

KEPT = FRAME.blocks(120_000)  # the longest utterance (60 s) and as long for a recogniser that is behind
SPEAKING = 0.3  # confidence from which a voice counts as speaking


@dataclass(frozen=True)
class _Heard:
    sample: int
    voice: Voice


class VoiceRecord:
    """Of one source, in its clock."""

    def __init__(self, doa_ms: int, rate_hz: int) -> None:
        self._heard: deque[_Heard] = deque(maxlen=KEPT)
        self._pause = doa_ms * rate_hz // 1000
        self._told: dict[int, int] = {}  # by voice, the sample of what was told last

    def note(self, sample: int, voices: Sequence[Voice]) -> tuple[Voice, ...]:
        """Voices of the block that begins at ``sample``; those of which it is time to tell."""
        speaking = [voice for voice in voices if voice.conf >= SPEAKING]
        if speaking:
            self._heard.append(_Heard(sample, max(speaking, key=lambda voice: voice.conf)))
        due = [v for v in speaking if sample - self._told.get(v.track, -self._pause) >= self._pause]
        self._told = {v.track: self._told[v.track] for v in voices if v.track in self._told}
        self._told |= {voice.track: sample for voice in due}
        return tuple(due)

    def between(self, first: int, last: int) -> Voice | None:
        """Who spoke most from sample ``first`` to ``last``, and from where; None: nobody was found."""
        voices = [heard.voice for heard in self._heard if first <= heard.sample < last]
        if not voices:
            return None
        share: dict[int, float] = {}
        for voice in voices:
            share[voice.track] = share.get(voice.track, 0.0) + voice.conf
        track = max(share, key=lambda number: share[number])
        return _mean([voice for voice in voices if voice.track == track], len(voices))


def _mean(voices: Sequence[Voice], of: int) -> Voice:
    """The direction on the whole; its confidence is less where others spoke too."""
    weights = np.array([voice.conf for voice in voices])
    directions = unit(
        np.array([voice.azimuth_deg for voice in voices]),
        np.array([voice.elevation_deg or 0.0 for voice in voices]),
    )
    azimuth, elevation = angles(weights @ directions)
    newest = voices[-1]
    return replace(
        newest,
        azimuth_deg=round(azimuth, 1),
        elevation_deg=None if newest.elevation_deg is None else round(elevation, 1),
        conf=round(float(weights.sum() / of), 3),
    )
