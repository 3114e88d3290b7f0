"""The utterances of many sources, a stream each, stepped in batches. Pure: no thread, no clock of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cosyd.asr.decode import DecodeResult
from cosyd.asr.streaming.chunk import Chunk, LiveTranscript
from cosyd.asr.streaming.former import BatchFormer
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.errors import InferenceError

log = logging.getLogger(__name__)

ATTEMPTS = 2  # of one step


@dataclass
class _Open:
    """One source's utterance in the model. ``newest``: the last chunk handed over, ``since``: when."""

    slot: int
    newest: Chunk
    since: float
    shown: tuple[str, str] = ("", "")
    error: str | None = None


class StreamWork:
    """Borrows the recogniser. Times are the caller's; results go back to it."""

    def __init__(self, recognizer: CachedStateRecognizer, former: BatchFormer) -> None:
        self._recognizer = recognizer
        self._streams = recognizer.streams
        self._former = former
        self._open: dict[str, _Open] = {}
        self._by_slot: dict[int, _Open] = {}

    def __len__(self) -> int:
        """Utterances that are open."""
        return len(self._open)

    def ending(self, source: str) -> bool:
        """Whether its utterance has all its audio and no result yet; what follows has to wait."""
        known = self._open.get(source)
        return known is not None and bool(known.newest.ends)

    def hear(self, chunks: Sequence[Chunk], since: float, now: float) -> list[DecodeResult]:
        """Audio of one source, whose utterance must not be ending; chunks of one utterance in order.

        Computes features and runs no network. Raises InferenceError when there is no slot for a new stream.
        """
        newest = chunks[-1]
        known = self._open.get(newest.source) or self._begin(newest, since)
        known.newest, known.since = newest, since
        self._streams.push(known.slot, np.concatenate([chunk.audio for chunk in chunks]))
        if newest.ends == "utterance":
            self._streams.end(known.slot)
        self._note_ready(now)
        return self._finish(known, now) if newest.ends else []

    def _begin(self, chunk: Chunk, since: float) -> _Open:
        slot = self._recognizer.open(chunk.hotwords, start_s=chunk.origin_s)
        known = _Open(slot, chunk, since)
        self._open[chunk.source] = self._by_slot[known.slot] = known
        return known

    def delay(self, now: float) -> float | None:
        """Seconds until a batch is due, 0.0 at once, None while no stream has audio for a step."""
        return self._former.delay(now, len(self._by_slot))

    def step(self, now: float) -> list[DecodeResult]:
        """Run the batch that is due, or nothing; utterances whose end somebody waits for come first."""
        if self.delay(now) != 0.0:
            return []
        urgent = {slot for slot, known in self._by_slot.items() if known.newest.ends}
        batch = [self._by_slot[slot] for slot in self._former.take(urgent)]
        try:
            for slot in self._streams.step([known.slot for known in batch], ATTEMPTS):
                self._by_slot[slot].error = "the network's scores are no numbers; its states begin anew"
        except InferenceError as error:
            log.error("%d streams: %s", len(batch), error)
            for known in batch:
                known.error = str(error)
        self._note_ready(now)
        return [result for known in batch for result in self._results_of(known, now)]

    def _note_ready(self, now: float) -> None:
        self._former.update(self._streams.ready(self._by_slot), now)

    def _results_of(self, known: _Open, now: float) -> list[DecodeResult]:
        return self._finish(known, now) if known.newest.ends else self._show(known, now)

    def _show(self, known: _Open, now: float) -> list[DecodeResult]:
        """A partial result, if it says something new; or that a step failed, which the utterance outlives."""
        if known.error is not None:
            error, known.error = known.error, None
            return [_result(known, now, None, error)]
        transcript = self._streams.transcript(known.slot)
        said = (transcript.text, transcript.stable)
        if said == known.shown and not transcript.trailing_s:
            return []
        known.shown = said
        return [_result(known, now, transcript)]

    def _finish(self, known: _Open, now: float) -> list[DecodeResult]:
        """The final result, once all audio is used up; what was said before a failed step is better than
        nothing."""
        if self._streams.ready([known.slot]):
            return []
        chunk = known.newest
        transcript = self._streams.transcript(known.slot, final=True)
        result = _result(known, now, transcript, known.error if not transcript.text else None)
        if chunk.ends == "segment":
            self._streams.restart(known.slot)
            known.newest = _resting(chunk)
            known.shown, known.error = ("", ""), None
        else:
            self.forget(chunk.source)
        return [result]

    def forget(self, source: str) -> None:
        """Close its stream, if it has one; there will be no result."""
        known = self._open.pop(source, None)
        if known is not None:
            del self._by_slot[known.slot]
            self._streams.close(known.slot)
            self._former.drop(known.slot)


def _resting(chunk: Chunk) -> Chunk:
    """The place of a stream that goes on, before anything of its next utterance has come."""
    return replace(chunk, ends="", utt=chunk.utt + 1)


def _result(
    known: _Open, now: float, transcript: LiveTranscript | None, error: str | None = None
) -> DecodeResult:
    if error is not None:
        transcript = None
    return DecodeResult(known.newest, transcript, error, max(0.0, now - known.since))
