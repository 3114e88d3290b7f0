"""Between the listeners and the streaming model: a thread of its own, which forms batches of many streams.

Each source has one stream at a time. Its chunks are taken in order; what waits is joined, so a stream that
is behind catches up in longer strides. Of its partial results only the newest waits to be fetched. Finals are
never dropped. A source whose audio waits for more than ``BACKLOG_S`` has no room: its owner leaves further
audio in the ring, and whoever submits all the same waits.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from cosyd.asr.decode import Decode, DecodeResult
from cosyd.asr.decode_queue import DecodeStatistics
from cosyd.asr.decode_thread import DecodeThread
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.streaming.chunk import Chunk
from cosyd.asr.streaming.former import DEADLINE_S, BatchFormer
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.asr.streaming.stream_work import StreamWork
from cosyd.errors import InferenceError
from cosyd.spec import FRAME

BACKLOG_S = 2.0  # audio of one source that waits; more is better off in the ring, which counts what it loses
RESULTS_LIMIT = 256  # results that the owner has not fetched; it is far behind then, and decoding waits


class _Inbox:
    """Chunks of one source that wait, oldest first; bounded by ``BACKLOG_S``."""

    def __init__(self) -> None:
        self.chunks: deque[tuple[Chunk, float]] = deque()
        self.samples = 0

    def put(self, chunk: Chunk, now: float) -> None:
        self.chunks.append((chunk, now))
        self.samples += chunk.audio.size

    def take(self) -> tuple[list[Chunk], float]:
        """What belongs to the first utterance, and since when it waits."""
        since = self.chunks[0][1]
        taken: list[Chunk] = []
        while self.chunks and not (taken and taken[-1].ends):
            chunk, _ = self.chunks.popleft()
            self.samples -= chunk.audio.size
            taken.append(chunk)
        return taken, since


class StreamQueue(DecodeThread):
    """Owns the thread, not the recogniser. The owner's side has the surface of ``DecodeQueue``."""

    def __init__(
        self,
        recognizer: CachedStateRecognizer,
        *,
        most: int = 64,
        deadline_s: float = DEADLINE_S,
        backlog_s: float = BACKLOG_S,
        on_result: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``most``: streams of a batch. ``on_result`` is called in the thread after new results."""
        super().__init__()
        self._recognizer = recognizer
        self._work = StreamWork(recognizer, BatchFormer(most, deadline_s))  # the thread's alone
        self._backlog = int(backlog_s * FRAME.rate_hz)
        self._on_result = on_result
        self._clock = clock
        self._inboxes: dict[str, _Inbox] = {}
        self._forgotten: set[str] = set()  # their streams are still to be closed
        self._results: list[DecodeResult] = []  # bounded by RESULTS_LIMIT, and one partial a source
        self._busy_since: float | None = None
        self._decoded = self._coalesced = self._failed = 0
        self._decode_s = self._audio_s = 0.0

    # --- the owner's side -----------------------------------------------------------------------------

    def submit(self, decode: Decode, timeout_s: float | None = None) -> bool:
        """Queue a chunk. Waits while its source has no room; False: it still has none after ``timeout_s``,
        or the queue is closed, and the chunk was not taken."""
        if not isinstance(decode, Chunk):
            raise TypeError(f"a streaming model takes chunks, not a {type(decode).__name__}")
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._ended or self._room(decode.source), timeout_s
            )
            self._check()
            if self._closed or not self._room(decode.source):
                return False
            self._inboxes.setdefault(decode.source, _Inbox()).put(decode, self._clock())
            self._changed.notify_all()
            return True

    def has_room(self, source: str) -> bool:
        """Whether more audio of this source may be submitted without waiting."""
        with self._changed:
            return self._room(source)

    def _room(self, source: str) -> bool:
        known = self._inboxes.get(source)
        return known is None or known.samples < self._backlog

    def results(self) -> list[DecodeResult]:
        """All results since the last call, oldest first."""
        with self._changed:
            self._check()
            results, self._results = self._results, []
            self._changed.notify_all()
        return results

    def forget_source(self, source: str) -> None:
        """A source is gone, and so is what it has open and what of it waits."""
        with self._changed:
            self._inboxes.pop(source, None)
            self._forgotten.add(source)
            self._changed.notify_all()

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        """Phrases that the recogniser cannot favour."""
        return self._recognizer.unusable(hotwords)

    def statistics(self) -> DecodeStatistics:
        with self._changed:
            waiting = [chunk for inbox in self._inboxes.values() for chunk, _ in inbox.chunks]
            finals = sum(bool(chunk.ends) for chunk in waiting)
            return DecodeStatistics(
                waiting_finals=finals,
                waiting_partials=len(waiting) - finals,
                decoded=self._decoded,
                coalesced=self._coalesced,
                failed=self._failed,
                decode_s=self._decode_s,
                audio_s=self._audio_s,
                busy_since=self._busy_since,
            )

    # --- the thread's side ----------------------------------------------------------------------------

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            begin = self._clock()
            results = [result for chunks, since in taken for result in self._hear(chunks, since)]
            results += self._work.step(self._clock())
            self._deliver(results, self._clock() - begin)
            if results and self._on_result is not None:
                self._on_result()

    def _take(self) -> list[tuple[list[Chunk], float]] | None:
        """What waits, or nothing once a batch is due; None when closed. Sets ``busy_since``."""
        with self._changed:
            while not self._closed:
                for source in self._forgotten:
                    self._work.forget(source)
                self._forgotten.clear()
                full = len(self._results) >= RESULTS_LIMIT
                taken = [] if full else self._waiting()
                delay = None if full else self._work.delay(self._clock())
                if taken or delay == 0.0:
                    self._busy_since = self._clock()
                    self._changed.notify_all()  # there is room again
                    return taken
                self._changed.wait(delay)
        return None

    def _waiting(self) -> list[tuple[list[Chunk], float]]:
        """Chunks of all sources whose utterance is not just ending."""
        ready = [s for s, inbox in self._inboxes.items() if inbox.chunks and not self._work.ending(s)]
        taken = [self._inboxes[source].take() for source in ready]
        self._coalesced += sum(len(chunks) - 1 for chunks, _ in taken)
        return taken

    def _hear(self, chunks: list[Chunk], since: float) -> list[DecodeResult]:
        self._audio_s += sum(chunk.audio.size for chunk in chunks) / FRAME.rate_hz
        try:
            return self._work.hear(chunks, since, self._clock())
        except InferenceError as error:
            return [DecodeResult(chunks[-1], None, str(error), 0.0)]

    def _deliver(self, results: list[DecodeResult], took_s: float) -> None:
        with self._changed:
            self._busy_since = None
            self._decode_s += took_s
            self._decoded += len(results)
            for result in results:
                self._failed += result.error is not None
                self._replace_partial(result)
                self._results.append(result)
            self._changed.notify_all()

    def _replace_partial(self, newer: DecodeResult) -> None:
        """A result makes the partial of its source that was not fetched yet stale."""
        kept = [r for r in self._results if not _stale(r, newer)]
        self._coalesced += len(self._results) - len(kept)
        self._results = kept


def _stale(result: DecodeResult, newer: DecodeResult) -> bool:
    old, new = result.decode, newer.decode
    return old.kind == "partial" and (old.source, old.utt) == (new.source, new.utt)
