"""When an utterance is over, and where a long one is cut. Audio time only: counts of blocks, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosyd.config.schema import EndpointConfig
from cosyd.spec import FRAME
from cosyd.types import EndReason

SPLIT_WINDOW_MS = 8_000  # people pause within 8 s; the longer the search, the better the pause found
SPLIT_SHARE = 1 / 3  # ... but no more than the last third of a long utterance
PAUSE_MS = 128  # the stretch that is compared: a stop consonant is shorter, a pause between words longer
# A final hears so much of the silence that ends an utterance and is decoded during the rest of it: of 800 ms
# 320, and of a long utterance, which takes longer, 544. Earlier, more pauses are taken for ends: on 60 clips
# of LibriSpeech train-clean-100 half as many again, with word errors as before (5.83 %).
TAIL_SHARE, LONG_TAIL_SHARE = 0.6, 0.32
LONG_MS = 5_000
_LEVEL_SPAN_DB = 40.0  # loud speech to silence: what one step from 1 to 0 in probability is worth


@dataclass(frozen=True)
class Progress:
    """An open utterance, in blocks. ``stale``: audio heard since something new was last recognised."""

    quiet: int
    speech: int
    length: int
    stale: int


class EndpointRules:
    """The section ``endpoint`` of the configuration, in blocks. ``limit_ms``: the model's own limit."""

    def __init__(self, config: EndpointConfig, limit_ms: float) -> None:
        self._silence = FRAME.blocks(config.silence_ms)
        self._short_silence = max(self._silence, FRAME.blocks(config.short_silence_ms))
        self._short_speech = FRAME.blocks(config.short_speech_ms)
        self.no_speech = FRAME.blocks(config.no_speech_ms)
        self.longest = int(min(config.longest_ms, limit_ms)) // FRAME.block_ms
        split_window = min(SPLIT_WINDOW_MS // FRAME.block_ms, int(self.longest * SPLIT_SHARE))
        self.earliest_split = self.longest - split_window  # position from which on a long one may be cut
        self.preroll = FRAME.blocks(config.preroll_ms)
        self._tail, self._long_tail = (
            max(1, int(self._silence * share)) for share in (TAIL_SHARE, LONG_TAIL_SHARE)
        )
        self._long = FRAME.blocks(LONG_MS)

    def tail(self, speech_end: int) -> int:
        """So much silence is heard after speech that ended at this position."""
        return self._tail if speech_end < self._long else self._long_tail

    def cut(self, speech_end: int) -> int:
        """Position where the audio of a final ends if speech ended at ``speech_end``."""
        return speech_end + self.tail(speech_end)

    def slack(self, speech_end: int) -> int:
        """From there to the earliest endpoint."""
        return self._silence - self.tail(speech_end)

    def decide(self, progress: Progress) -> EndReason | None:
        """The rule that ends the utterance now, or None."""
        short = progress.speech < self._short_speech
        if progress.quiet >= (self._short_silence if short else self._silence):
            return "silence_short" if short else "silence"
        if progress.length >= self.longest:
            return "longest"
        if progress.stale >= self.no_speech:
            return "no_speech"
        return None

    def split(self, probs: Sequence[float], levels_db: Sequence[float], earliest: int) -> int:
        """Position at which to cut an utterance that is too long, of whose blocks there is one value each.

        At its best pause, in the last part of it and not before ``earliest``.
        """
        first = min(max(1, self.earliest_split, earliest), len(probs) - 1)
        return first + best_pause(probs[first:], levels_db[first:])


def best_pause(probs: Sequence[float], levels_db: Sequence[float]) -> int:
    """The middle of the quietest stretch of ``PAUSE_MS``, as a number of blocks from the beginning.

    ``probs`` and ``levels_db``: one value a block, at least one block.
    """
    width = min(PAUSE_MS // FRAME.block_ms, len(probs))
    loudness = np.asarray(probs, float) + np.asarray(levels_db, float) / _LEVEL_SPAN_DB
    stretches = np.convolve(loudness, np.full(width, 1 / width), mode="valid")
    # Of equally good pauses the last: the first part is then the longer one.
    best = len(stretches) - 1 - int(np.argmin(stretches[::-1]))
    return max(1, best + width // 2)
