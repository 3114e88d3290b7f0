"""Between the listeners and the one recogniser: a thread of its own and what waits for it.

In which order it is decoded is ``DecodeLine``'s part. Whoever submits one final more than ``FINALS_LIMIT``
waits.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from cosyd.asr.attempt import Outcome, attempt
from cosyd.asr.decode import Decode, DecodeResult
from cosyd.asr.decode_line import FINALS_LIMIT, PARTIAL_SHARE, DecodeLine, Waiting
from cosyd.asr.decode_thread import DecodeThread
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.recognizer import SegmentRecognizer
from cosyd.models.stop import Stop, Stopped
from cosyd.spec import FRAME

RESULTS_LIMIT = 256  # results that the owner has not fetched; it is far behind then, and decoding waits


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
        self._unsure = second_opinion
        self._clock = clock
        self._line = DecodeLine(partial_share, finals_limit)
        self._results: deque[DecodeResult] = deque()  # bounded by RESULTS_LIMIT
        self._stop: Stop | None = None  # of the partial that is being decoded
        self._busy_since: float | None = None
        self._decoded = self._failed = 0
        self._decode_s = self._audio_s = 0.0

    # --- the owner's side -----------------------------------------------------------------------------

    def submit(self, decode: Decode, timeout_s: float | None = None) -> bool:
        """Queue a request. Waits while ``finals_limit`` finals wait; False: it still does after
        ``timeout_s``, or the queue is closed, and the request was not taken. Partials never wait."""
        with self._changed:
            if decode.kind != "partial":
                self._line.supersede(decode.source, decode.utt)
                self._changed.wait_for(lambda: self._closed or self._ended or self._line.has_room, timeout_s)
                self._check()
                if not self._line.has_room:
                    return False
            if self._closed:
                return False
            self._line.put(decode, self._clock())
            if decode.kind != "partial":
                self._stop_partial()
            self._changed.notify_all()
            return True

    def _stop_partial(self) -> None:
        if self._stop is not None:
            self._stop.set()

    def has_room(self, source: str) -> bool:
        """Whether more audio may become finals without waiting: while they pile up, it is better off in the
        rings. A turn may still add some, whatever the number of sources."""
        with self._changed:
            return not self._line.half_full

    def results(self) -> list[DecodeResult]:
        """All results since the last call, oldest first."""
        with self._changed:
            self._check()
            results = list(self._results)
            self._results.clear()
            if results:
                self._changed.notify_all()
        return results

    def forget_source(self, source: str) -> None:
        """A source is gone: its partial, if one waits, too. Its finals are still decoded."""
        with self._changed:
            self._line.forget(source)

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        """Phrases that the recogniser cannot favour."""
        return self._recognizer.unusable(hotwords)

    def close(self) -> None:
        """End the thread, after a final that is under way; what waits is dropped. Idempotent."""
        with self._changed:
            self._stop_partial()
        super().close()

    def statistics(self) -> DecodeStatistics:
        with self._changed:
            return DecodeStatistics(
                waiting_finals=self._line.finals,
                waiting_partials=self._line.partials,
                decoded=self._decoded,
                coalesced=self._line.coalesced,
                failed=self._failed,
                decode_s=self._decode_s,
                audio_s=self._audio_s,
                busy_since=self._busy_since,
            )

    # --- the thread's side ----------------------------------------------------------------------------

    def _run(self) -> None:
        while (waiting := self._take()) is not None:
            begin = self._clock()
            try:
                outcome = self._decode(waiting.decode)
            except Stopped:
                self._make_way(waiting, self._clock() - begin)
                continue
            took_s = self._clock() - begin
            self._deliver(DecodeResult(waiting.decode, outcome.transcript, outcome.error, took_s))
            if self._on_result is not None:
                self._on_result()

    def _take(self) -> Waiting | None:
        """The next request, waiting for one; None when closed. Sets ``busy_since``."""
        with self._changed:
            while not self._closed:
                full = len(self._results) >= RESULTS_LIMIT
                waiting = None if full else self._line.take(self._clock())
                if waiting is not None:
                    self._busy_since = self._clock()
                    self._stop = Stop() if waiting.may_be_stopped else None
                    self._changed.notify_all()
                    return waiting
                self._changed.wait(None if full else self._line.rest(self._clock()))
        return None

    def _decode(self, decode: Decode) -> Outcome:
        """Raises Stopped."""
        with nullcontext() if self._stop is None else self._stop.heeded():
            return attempt(self._recognizer, decode, unsure=self._unsure)

    def _make_way(self, waiting: Waiting, took_s: float) -> None:
        with self._changed:
            self._stop = self._busy_since = None
            self._decode_s += took_s
            self._line.stopped(waiting, took_s, self._clock())

    def _deliver(self, result: DecodeResult) -> None:
        decode = result.decode
        with self._changed:
            self._stop = self._busy_since = None
            self._decoded += 1
            self._failed += result.error is not None
            self._decode_s += result.decode_s
            self._audio_s += decode.audio.size / FRAME.rate_hz
            self._line.decoded(decode, result.decode_s, self._clock())
            self._results.append(result)
            self._changed.notify_all()
