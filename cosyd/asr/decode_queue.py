"""Between the listeners and the one recogniser: a thread of its own and what waits for it.

Finals and speculative finals come first, in the order in which their results are needed; they are never
dropped, and whoever submits one more than ``FINALS_LIMIT`` waits. Partials come when nothing else waits. One
a source is kept, a newer one takes its place. Partials and speculations of one source together get
``PARTIAL_SHARE`` of the time: after one that took 60 ms the next partial begins 340 ms later at the earliest,
so that long utterances, whose partials cost more, get them less often instead of more of the processor.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cosyd.asr.decode import Decode, DecodeResult
from cosyd.asr.decode_thread import DecodeThread
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.second_opinion import reconsidered
from cosyd.asr.words import placed
from cosyd.errors import InferenceError
from cosyd.spec import FRAME
from cosyd.types import Transcript

log = logging.getLogger(__name__)

FINALS_LIMIT = 32  # a final costs up to 1 s: half a minute behind, more would only be later still
RESULTS_LIMIT = 256  # results that the owner has not fetched; it is far behind then, and decoding waits
# Of the wall time, per source; finals and the front end come on top. With it one stream stays below 30 % of a
# core also where that core is slow: there partials come less often than asr.partial_ms asks for.
PARTIAL_SHARE = 0.15
FINAL_ATTEMPTS = 2


@dataclass(frozen=True)
class DecodeStatistics:
    """``busy_since``: when the decode under way began (``time.monotonic``), None when idle."""

    waiting_finals: int
    waiting_partials: int
    decoded: int
    coalesced: int
    failed: int
    decode_s: float
    audio_s: float
    busy_since: float | None


@dataclass
class _Waiting:
    decode: Decode
    since: float

    @property
    def due(self) -> float:
        return self.since + self.decode.slack_s


class DecodeQueue(DecodeThread):
    """Owns the thread, not the recogniser. ``on_result`` is called in the thread after each result.

    ``second_opinion``: finals with a confidence below this are decoded twice.
    """

    def __init__(
        self,
        recognizer: SegmentRecognizer,
        *,
        on_result: Callable[[], None] | None = None,
        partial_share: float = PARTIAL_SHARE,
        second_opinion: float = 0.0,
        finals_limit: int = FINALS_LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._recognizer = recognizer
        self._on_result = on_result
        self._partial_share = partial_share
        self._unsure = second_opinion
        self._finals_limit = finals_limit
        self._clock = clock
        self._finals: list[_Waiting] = []  # bounded by finals_limit
        self._partials: dict[str, _Waiting] = {}  # one a source
        self._rested: dict[str, float] = {}  # source -> when its next partial may begin
        self._results: deque[DecodeResult] = deque()  # bounded by RESULTS_LIMIT
        self._busy_since: float | None = None
        self._decoded = self._coalesced = self._failed = 0
        self._decode_s = self._audio_s = 0.0

    # --- the owner's side -----------------------------------------------------------------------------

    def submit(self, decode: Decode, timeout_s: float | None = None) -> bool:
        """Queue a request. Waits while ``finals_limit`` finals wait; False: it still does after
        ``timeout_s``, or the queue is closed, and the request was not taken. Partials never wait."""
        with self._changed:
            if decode.kind == "partial":
                return self._submit_partial(decode)
            self._forget(decode.source, decode.utt)
            room = self._changed.wait_for(self._has_room, timeout_s)
            if not room or self._closed:
                return False
            self._finals.append(_Waiting(decode, self._clock()))
            self._changed.notify_all()
            return True

    def _has_room(self) -> bool:
        return self._closed or len(self._finals) < self._finals_limit

    def has_room(self, source: str) -> bool:
        """Whether more audio may become finals without waiting: while they pile up, it is better off in the
        rings. A turn may still add some, whatever the number of sources."""
        with self._changed:
            return len(self._finals) < self._finals_limit // 2

    def _submit_partial(self, decode: Decode) -> bool:
        if self._closed:
            return False
        if decode.source in self._partials:
            self._coalesced += 1
        self._partials[decode.source] = _Waiting(decode, self._clock())
        self._changed.notify_all()
        return True

    def _forget(self, source: str, utt: int) -> None:
        """A final makes the partial and the speculations of its utterance that still wait pointless."""
        waiting = self._partials.get(source)
        if waiting is not None and waiting.decode.utt == utt:
            del self._partials[source]
            self._coalesced += 1
        kept = [w for w in self._finals if not _superseded(w.decode, source, utt)]
        self._coalesced += len(self._finals) - len(kept)
        self._finals = kept

    def results(self) -> list[DecodeResult]:
        """All results since the last call, oldest first."""
        with self._changed:
            results = list(self._results)
            self._results.clear()
            self._changed.notify_all()
        return results

    def forget_source(self, source: str) -> None:
        """A source is gone: its partial, if one waits, too. Its finals are still decoded."""
        with self._changed:
            self._partials.pop(source, None)
            self._rested.pop(source, None)

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        """Phrases that the recogniser cannot favour."""
        return self._recognizer.unusable(hotwords)

    @property
    def idle(self) -> bool:
        """Nothing waits, nothing is being decoded and no result is left to fetch."""
        with self._changed:
            return not (self._finals or self._partials or self._results) and self._busy_since is None

    def statistics(self) -> DecodeStatistics:
        with self._changed:
            return DecodeStatistics(
                waiting_finals=len(self._finals),
                waiting_partials=len(self._partials),
                decoded=self._decoded,
                coalesced=self._coalesced,
                failed=self._failed,
                decode_s=self._decode_s,
                audio_s=self._audio_s,
                busy_since=self._busy_since,
            )

    # --- the thread's side ----------------------------------------------------------------------------

    def _run(self) -> None:
        while (waiting := self._take()) is not None:
            self._deliver(self._decode(waiting))
            if self._on_result is not None:
                self._on_result()

    def _take(self) -> _Waiting | None:
        """The next request, waiting for one; None when closed. Sets ``busy_since``."""
        with self._changed:
            while not self._closed:
                waiting = self._next() if len(self._results) < RESULTS_LIMIT else None
                if waiting is not None:
                    self._busy_since = self._clock()
                    self._changed.notify_all()
                    return waiting
                self._changed.wait(self._rest())
        return None

    def _next(self) -> _Waiting | None:
        if self._finals:
            first = min(self._finals, key=lambda waiting: waiting.due)
            self._finals.remove(first)
            return first
        now = self._clock()
        rested = [source for source in self._partials if self._rested.get(source, now) <= now]
        if not rested:
            return None
        return self._partials.pop(min(rested, key=lambda source: self._partials[source].since))

    def _rest(self) -> float | None:
        """Seconds until a waiting partial may begin; None: nothing to wait for but a change."""
        if not self._partials or len(self._results) >= RESULTS_LIMIT:
            return None
        now = self._clock()
        return max(0.001, min(self._rested.get(source, now) for source in self._partials) - now)

    def _decode(self, waiting: _Waiting) -> DecodeResult:
        decode = waiting.decode
        begin = self._clock()
        attempts = 1 if decode.kind == "partial" else FINAL_ATTEMPTS
        transcript, error = self._attempt(decode, attempts)
        return DecodeResult(decode, transcript, error, begin - waiting.since, self._clock() - begin)

    def _attempt(self, decode: Decode, attempts: int) -> tuple[Transcript | None, str | None]:
        request = SegmentRequest(
            decode.audio,
            decode.prompt,
            decode.draft,
            decode.context,
            decode.context_samples,
            decode.hotwords,
            decode.words,
            quick=decode.kind == "partial",
        )
        reason = ""
        for _ in range(attempts):
            try:
                transcript = self._recognizer.transcribe([request])[0]
                if decode.kind != "partial":
                    transcript = self._reconsidered(transcript, request)
                return placed(transcript, decode.origin_s), None
            except InferenceError as error:
                reason = str(error)
                log.error("%s of utterance %d of %s: %s", decode.kind, decode.utt, decode.source, reason)
        return None, reason

    def _reconsidered(self, transcript: Transcript, request: SegmentRequest) -> Transcript:
        recognizer = self._recognizer
        return reconsidered(
            transcript, request, recognizer.transcribe, unsure=self._unsure, limit_s=recognizer.limit_s
        )

    def _deliver(self, result: DecodeResult) -> None:
        decode = result.decode
        with self._changed:
            now = self._clock()
            self._busy_since = None
            self._decoded += 1
            self._failed += result.error is not None
            self._decode_s += result.decode_s
            self._audio_s += decode.audio.size / FRAME.rate_hz
            if decode.kind != "final":  # a speculation shows the text so far as a partial does
                self._rested[decode.source] = now + result.decode_s * (1 / self._partial_share - 1)
            self._results.append(result)
            self._changed.notify_all()


def _superseded(decode: Decode, source: str, utt: int) -> bool:
    return decode.kind == "speculative" and decode.source == source and decode.utt == utt
