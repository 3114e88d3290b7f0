"""Recognition of many sources on one thread: rings → front end → listeners → decode queue → events.

``Pipeline.turn()`` does what is possible now and waits for audio at most ``timeout_s``. The recognition
worker calls it for ever; offline transcription calls it until the file is drained. Both see the same code.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cosyd.asr.listener import Listener
from cosyd.asr.recognition import RecognitionQueue, SourceListener
from cosyd.config.schema import Config, SourceConfig
from cosyd.frontend.contract import StreamFrontEnd
from cosyd.runtime.audio_path import AudioPath
from cosyd.runtime.feed import Feed
from cosyd.runtime.hearing import Hearing
from cosyd.runtime.ipc import (
    CheckHotwords,
    CloseExpected,
    Drained,
    FromWorker,
    HotwordsChecked,
    Notice,
    RecognitionProgress,
    Removed,
)
from cosyd.runtime.reports import progress_of
from cosyd.types import Checkpoint

IDLE_WAIT_S = 0.05  # how long a turn waits when no ring is attached yet
DRAIN_S = 2.0  # for what is unread when a source is closed; a stop has to be over in 5 s


class Pipeline:
    """Owns the feeds: which there are, whose turn it is, when one ends. Their audio goes an ``AudioPath``.

    Borrows the front end and the decode queue; ``limit_s`` and ``listen`` are the path's.
    """

    def __init__(
        self,
        config: Config,
        front_end: StreamFrontEnd,
        queue: RecognitionQueue,
        limit_s: float,
        emit: Callable[[FromWorker], None],
        listen: Callable[..., SourceListener] = Listener,
        *,
        patience_s: float = 0.0,
    ) -> None:
        """``patience_s``: see ``Recognition``."""
        self._level_ms = config.publish.level_ms
        self._patience_s = patience_s
        self._hearing = Hearing(front_end)
        self._path = AudioPath(config, self._hearing, queue, limit_s, emit, listen)
        self._queue = queue
        self._emit = emit
        self._feeds: dict[str, Feed] = {}

    # --- sources ---

    def add_source(self, source: SourceConfig, ring_path: Path, checkpoint: Checkpoint, muted: bool) -> None:
        """Read this source from its checkpoint on; its ring may not exist yet. Replaces one of that name."""
        if (old := self._feeds.get(source.name)) is not None:
            self._path.detach(old)
        self._feeds[source.name] = Feed(source, ring_path, checkpoint, muted, self._level_ms, self._ring_of)

    def _ring_of(self, name: str) -> Path | None:
        feed = self._feeds.get(name)
        return feed.ring_path if feed else None

    def remove_source(self, name: str) -> None:
        """Publish what is open and forget the source."""
        feed = self._feeds.get(name)
        if feed:
            self._path.read_to_end(feed, time.monotonic() + DRAIN_S)
            self._path.finish(feed, "shutdown")
            self._await_results([feed])
            self._queue.forget_source(name)
            self._path.detach(feed)
            del self._feeds[name]
        self._emit(Removed(name))

    def set_muted(self, name: str, muted: bool) -> None:
        feed = self._feeds.get(name)
        if feed and feed.muted != muted:
            if muted:
                self._path.finish(feed, "muted")
                feed.muted = True
            else:
                feed.unmute()

    def lose_source(self, name: str) -> None:
        """The device went away: once its audio is used up, the open utterance ends with that reason."""
        feed = self._feeds.get(name)
        if feed:
            feed.lost = True

    def expect_close(self, name: str) -> None:
        """The source is being closed on purpose: what is open then ends for that reason."""
        feed = self._feeds.get(name)
        if feed:
            feed.end_reason = "shutdown"
        self._emit(CloseExpected(name))

    def reconfigure(self, config: Config) -> None:
        """Apply live keys; open utterances live on."""
        self._level_ms = config.publish.level_ms
        for feed in self._feeds.values():
            feed.level_meter.period_ms = self._level_ms
        self._path.reconfigure(config, self._feeds.values())

    def check_hotwords(self, question: CheckHotwords) -> None:
        """Answer which of these phrases would have no effect."""
        self._emit(HotwordsChecked(question.number, self._queue.unusable(question.hotwords)))

    def close(self) -> None:
        """End all that is open, wait for its results, let go of the rings, also when nobody hears of it."""
        deadline = time.monotonic() + DRAIN_S
        try:
            for feed in self._feeds.values():
                self._path.read_to_end(feed, deadline)
                self._path.finish(feed, "shutdown")
            self._await_results(list(self._feeds.values()))
        finally:
            for feed in self._feeds.values():
                self._path.detach(feed)
            self._feeds.clear()

    def discard(self) -> None:
        """Let go of all sources; what is open, unread or waits for its result is dropped."""
        for feed in self._feeds.values():
            self._queue.forget_source(feed.name)
            self._path.detach(feed)
        self._feeds.clear()

    def _await_results(self, feeds: list[Feed]) -> None:
        while any(feed.pending for feed in feeds):
            self._queue.wait(IDLE_WAIT_S)
            self._path.collect(self._feeds)

    # --- turning ---

    def turn(self, timeout_s: float) -> bool:
        """One round; True if any audio moved."""
        moved = False
        for feed in self._feeds.values():
            # While the recogniser is behind, the rings keep the audio until it has caught up.
            if self._queue.has_room(feed.name):
                moved |= self._path.read(feed)
        self._path.collect(self._feeds)
        for feed in self._feeds.values():
            self._settle(feed)
            for news in feed.news():
                self._emit(Notice(feed.name, news))
        if not (moved and self._more):
            self._wait(timeout_s)
        return moved

    @property
    def _more(self) -> bool:
        """Whether the next round would find audio, or an end."""
        return any(not feed.attached or feed.ready for feed in self._feeds.values())

    def _wait(self, timeout_s: float) -> None:
        """Sleep until there is a result, or as much audio as is worth waking up for.

        A source that is overdue is looked at together with the others; when all are, the ring that moved last
        wakes the thread.
        """
        live = [feed for feed in self._feeds.values() if feed.live]
        due_s = [due_s for feed in live if (due_s := feed.due_s) is not None]
        if due_s or not live:
            self._queue.wait(min(timeout_s, *due_s) if due_s else min(timeout_s, IDLE_WAIT_S))
        else:
            max(live, key=lambda feed: feed.read_at).wait(min(timeout_s, IDLE_WAIT_S))

    def _settle(self, feed: Feed) -> None:
        """Close what the device's loss or the end of the stream leaves open."""
        if not feed.attached or feed.behind:
            return
        if feed.lost:
            feed.lost = False
            self._path.finish(feed, "device_lost")
        elif feed.ended and not feed.flushed:
            feed.flushed = True
            self._path.finish(feed, feed.end_reason)
        elif feed.flushed and not feed.drained and not feed.pending:
            feed.drained = True
            self._emit(Drained(feed.name))
        elif feed.replaced:
            self._follow(feed)

    def _follow(self, feed: Feed) -> None:
        """The device came back with another format, in a new ring: attach to that one."""
        self._path.finish(feed, "gap")
        if not feed.pending:
            checkpoint = feed.current_checkpoint
            feed.checkpoint = Checkpoint(feed.position, checkpoint.utt, rate_hz=checkpoint.rate_hz)
            self._path.detach(feed)

    def progress(self) -> RecognitionProgress:
        """A snapshot for the daemon."""
        queue = self._queue.statistics()
        return RecognitionProgress(
            {name: progress_of(feed, self._hearing.backends_of(feed)) for name, feed in self._feeds.items()},
            queue.waiting_finals + queue.waiting_partials,
            queue.coalesced,
            time.monotonic() - queue.busy_since if queue.busy_since is not None else 0.0,
            queue.decoded,
            queue.decode_s,
            self._hearing.backends,
            self._patience_s,
        )
