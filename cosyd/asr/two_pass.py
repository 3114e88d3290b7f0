"""Two passes over the same audio: a streaming model while it is spoken, a segment model for the final.

The streaming model gives the partials. When an utterance is over, the segment model hears it whole; when it
is late, fails or doubts itself, the streaming model's text is the final. Partials of the first pass promise
nothing (their ``stable`` is empty), since the second may correct them.

The scheme is FunASR's "2pass"; the surface is that of the two queues.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cosyd.asr.decode import Decode, DecodeResult
from cosyd.asr.decode_queue import DecodeQueue, DecodeStatistics
from cosyd.asr.doubt import doubtful
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.recognizer import Audio
from cosyd.asr.streaming.chunk import Chunk, LiveTranscript
from cosyd.asr.streaming.stream_queue import StreamQueue
from cosyd.spec import FRAME
from cosyd.types import Transcript


@dataclass
class _Open:
    """The audio so far of the utterance that a source has open; bounded by ``endpoint.longest_ms``."""

    utt: int
    pieces: list[Audio] = field(default_factory=list)


@dataclass(frozen=True)
class _Waiting:
    """The first pass is done; the second has until ``late_at`` (of the clock)."""

    first: DecodeResult
    second: Decode
    late_at: float


class TwoPassQueue:
    """Borrows both queues, which must call ``wake`` after each result. For the owner's thread alone."""

    def __init__(
        self,
        first: StreamQueue,
        second: DecodeQueue,
        model: str,
        *,
        within_s: float | None,
        wake: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``model``: name of the second; ``within_s``: longest time that a final waits for it,
        None as long as it takes."""
        self._first, self._second = first, second
        self._model = model
        self._within_s = float("inf") if within_s is None else within_s
        self._wake = wake
        self._clock = clock
        self._open: dict[str, _Open] = {}  # one a source
        self._ended: dict[tuple[str, int], Audio] = {}  # utterances that the first pass has not finished
        self._waiting: dict[int, _Waiting] = {}  # by the number of the second decode; bounded by its queue
        self._next_id = 0
        self.late = 0  # finals that did not wait for the second pass

    def submit(self, decode: Decode, timeout_s: float | None = None) -> bool:
        """See ``StreamQueue``."""
        if not self._first.submit(decode, timeout_s):
            return False
        assert isinstance(decode, Chunk)
        audio = self._heard(decode)
        if decode.ends:
            self._ended[decode.source, decode.utt] = audio
        return True

    def _heard(self, chunk: Chunk) -> Audio:
        """Keep the audio of an utterance; of one that ends with this chunk, all of it."""
        kept = self._open.get(chunk.source)
        if kept is None or kept.utt != chunk.utt:
            kept = self._open[chunk.source] = _Open(chunk.utt)
        kept.pieces.append(chunk.audio)
        return np.concatenate(self._open.pop(chunk.source).pieces) if chunk.ends else chunk.audio

    def has_room(self, source: str) -> bool:
        """See ``StreamQueue``."""
        return self._first.has_room(source) and self._second.has_room(source)

    def results(self) -> list[DecodeResult]:
        """Partials of the first pass, finals of the second, or of the first where that one is late."""
        self._wake.clear()
        given = [result for first in self._first.results() for result in self._after_first(first)]
        given += [result for second in self._second.results() for result in self._after_second(second)]
        now = self._clock()
        overdue = [number for number, waiting in self._waiting.items() if waiting.late_at <= now]
        self.late += len(overdue)
        return given + [self._waiting.pop(number).first for number in overdue]

    def _after_first(self, first: DecodeResult) -> list[DecodeResult]:
        chunk = first.decode
        if chunk.kind == "partial":
            return [_unpromised(first)]
        audio = self._ended.pop((chunk.source, chunk.utt), None)
        if audio is None or audio.size == 0:
            return [first]
        self._next_id += 1
        second = Decode(
            id=self._next_id,
            source=chunk.source,
            utt=chunk.utt,
            kind="final",
            audio=audio,
            start_sample=chunk.start_sample,
            end_sample=chunk.end_sample,
            anchor=0,
            blocks=chunk.blocks,
            hotwords=chunk.hotwords,
            words=chunk.words,
            origin_s=chunk.origin_s,
            reason=chunk.reason,
        )
        if not self._second.submit(second, 0.0):
            self.late += 1
            return [first]
        self._waiting[second.id] = _Waiting(first, second, self._clock() + self._within_s)
        return []

    def _after_second(self, second: DecodeResult) -> list[DecodeResult]:
        waiting = self._waiting.pop(second.decode.id, None)
        if waiting is None:  # it was late, or its source is gone
            return []
        transcript = second.transcript
        blocks = second.decode.audio.size // FRAME.block
        if transcript is None or not transcript.text or doubtful(transcript, blocks):
            return [waiting.first]
        named = replace(transcript, model=self._model)
        return [replace(waiting.first, transcript=named, error=None)]

    def wait(self, timeout_s: float) -> bool:
        """Wait for a result; False when none came in time."""
        now = self._clock()
        late_s = min((waiting.late_at - now for waiting in self._waiting.values()), default=timeout_s)
        return self._wake.wait(max(0.0, min(timeout_s, late_s))) or late_s <= timeout_s

    def forget_source(self, source: str) -> None:
        """See ``StreamQueue``."""
        self._first.forget_source(source)
        self._second.forget_source(source)
        self._open.pop(source, None)
        self._ended = {key: audio for key, audio in self._ended.items() if key[0] != source}
        gone = [number for number, waiting in self._waiting.items() if waiting.second.source == source]
        for number in gone:
            del self._waiting[number]

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        """Phrases that neither can favour."""
        of_second = {rejected.phrase for rejected in self._second.unusable(hotwords)}
        return tuple(rejected for rejected in self._first.unusable(hotwords) if rejected.phrase in of_second)

    def statistics(self) -> DecodeStatistics:
        """Of both together; a final waits until its second pass is there."""
        one, two = self._first.statistics(), self._second.statistics()
        busy = [since for since in (one.busy_since, two.busy_since) if since is not None]
        return DecodeStatistics(
            waiting_finals=one.waiting_finals + two.waiting_finals,
            waiting_partials=one.waiting_partials,
            decoded=one.decoded + two.decoded,
            coalesced=one.coalesced + two.coalesced,
            failed=one.failed + two.failed,
            decode_s=one.decode_s + two.decode_s,
            audio_s=one.audio_s,
            busy_since=min(busy, default=None),
        )


def _unpromised(result: DecodeResult) -> DecodeResult:
    """A partial without a promise: the second pass may say something else."""
    transcript: Transcript | None = result.transcript
    if isinstance(transcript, LiveTranscript):
        return replace(result, transcript=replace(transcript, stable=""))
    return result
