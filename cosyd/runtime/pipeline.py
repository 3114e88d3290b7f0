"""Recognition of many sources on one thread: rings → front end → listeners → decode queue → events.

``Pipeline.turn()`` does what is possible now and waits for audio at most ``timeout_s``. The recognition
worker calls it for ever; offline transcription calls it until the file is drained. Both see the same code.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from cosyd.asr.decode import Decode
from cosyd.asr.listener import Listener
from cosyd.asr.listening import Action
from cosyd.asr.recognition import RecognitionQueue, SourceListener
from cosyd.config.schema import AsrConfig, Config, SourceConfig
from cosyd.frontend.contract import STEP_BLOCKS, StreamFrontEnd
from cosyd.ring import Block
from cosyd.runtime.feed import Feed
from cosyd.runtime.hearing import Hearing
from cosyd.runtime.ipc import (
    ChannelsJudged,
    CheckHotwords,
    CloseExpected,
    Drained,
    FromWorker,
    GapSeen,
    Heard,
    HotwordsChecked,
    Located,
    Notice,
    RecognitionProgress,
    Removed,
)
from cosyd.runtime.reports import progress_of, recognised
from cosyd.spec import FRAME
from cosyd.types import Checkpoint, EndReason, Health

log = logging.getLogger("cosyd.runtime")

IDLE_WAIT_S = 0.05  # how long a turn waits when no ring is attached yet
DRAIN_S = 2.0  # for what is unread when a source is closed; a stop has to be over in 5 s
READ_S = STEP_BLOCKS * FRAME.block_ms / 1000  # most audio taken from one ring in one turn: sources take turns


class Pipeline:
    """Owns the feeds and what listens to them; borrows the front end and the decode queue.

    ``limit_s`` is the longest audio that the recogniser behind the queue takes; ``listen`` makes the listener
    of one source for it.
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
        self._config = config
        self._patience_s = patience_s
        self._listen = listen
        self._limit_s = limit_s
        self._hearing = Hearing(front_end)
        self._queue = queue
        self._emit = emit
        self._feeds: dict[str, Feed] = {}

    # --- sources ---

    def add_source(self, source: SourceConfig, ring_path: Path, checkpoint: Checkpoint, muted: bool) -> None:
        """Read this source from its checkpoint on; its ring may not exist yet. Replaces one of that name."""
        if (old := self._feeds.get(source.name)) is not None:
            self._detach(old)
        level_ms = self._config.publish.level_ms
        self._feeds[source.name] = Feed(source, ring_path, checkpoint, muted, level_ms, self._ring_of)

    def _ring_of(self, name: str) -> Path | None:
        feed = self._feeds.get(name)
        return feed.ring_path if feed else None

    def remove_source(self, name: str) -> None:
        """Publish what is open and forget the source."""
        feed = self._feeds.get(name)
        if feed:
            self._read_to_end(feed, time.monotonic() + DRAIN_S)
            self._finish(feed, "shutdown")
            self._await_results([feed])
            self._queue.forget_source(name)
            self._detach(feed)
            del self._feeds[name]
        self._emit(Removed(name))

    def set_muted(self, name: str, muted: bool) -> None:
        feed = self._feeds.get(name)
        if feed and feed.muted != muted:
            if muted:
                self._finish(feed, "muted")
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
        self._config = config
        for feed in self._feeds.values():
            feed.level_meter.period_ms = config.publish.level_ms
            if feed.listener:
                feed.prepare(config.frontend)
                feed.listener.reconfigure(config.vad, config.endpoint, self._asr_of(feed))

    def check_hotwords(self, question: CheckHotwords) -> None:
        """Answer which of these phrases would have no effect."""
        self._emit(HotwordsChecked(question.number, self._queue.unusable(question.hotwords)))

    def _asr_of(self, feed: Feed) -> AsrConfig:
        """With the hotwords of the source beside those of all."""
        named = {source.name: source for source in self._config.sources}
        own = named.get(feed.name, feed.source).hotwords
        asr = self._config.asr
        return asr.model_copy(update={"hotwords": (*asr.hotwords, *own)}) if own else asr

    def close(self) -> None:
        """End all that is open, wait for its results, let go of the rings, also when nobody hears of it."""
        deadline = time.monotonic() + DRAIN_S
        try:
            for feed in self._feeds.values():
                self._read_to_end(feed, deadline)
                self._finish(feed, "shutdown")
            self._await_results(list(self._feeds.values()))
        finally:
            for feed in self._feeds.values():
                self._detach(feed)
            self._feeds.clear()

    def discard(self) -> None:
        """Let go of all sources; what is open, unread or waits for its result is dropped."""
        for feed in self._feeds.values():
            self._queue.forget_source(feed.name)
            self._detach(feed)
        self._feeds.clear()

    def _read_to_end(self, feed: Feed, deadline: float) -> None:
        """Recognise what its device delivered before it was closed, as far as there is time."""
        while feed.attached and time.monotonic() < deadline and (block := feed.read(READ_S)) is not None:
            self._take(feed, block)

    def _await_results(self, feeds: list[Feed]) -> None:
        while any(feed.pending for feed in feeds):
            self._queue.wait(IDLE_WAIT_S)
            self._collect()

    # --- turning ---

    def turn(self, timeout_s: float) -> bool:
        """One round; True if any audio moved."""
        moved = False
        for feed in self._feeds.values():
            # While the recogniser is behind, the rings keep the audio until it has caught up.
            if self._queue.has_room(feed.name):
                moved |= self._read(feed)
        self._collect()
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

    def _read(self, feed: Feed) -> bool:
        if not feed.attached and not self._attach(feed):
            return False
        block = feed.read(READ_S) if feed.ready else None
        if block is None:
            return False
        self._take(feed, block)
        return True

    def _take(self, feed: Feed, block: Block) -> None:
        if block.gap or block.lost:
            self._emit(GapSeen(feed.name, block.index, block.gap, block.lost))
            self._finish(feed, "device_lost" if feed.lost else "gap")
            feed.lost = False
        self._hear(feed, block)

    def _hear(self, feed: Feed, block: Block) -> None:
        self._hearing.push(feed, block)
        level = feed.meter(block)
        if not feed.intact(block):  # overwritten while it was copied; the next block tells how much is lost
            log.warning("%s: audio was overwritten while it was read; the recogniser is too slow", feed.name)
            self._hearing.restart(feed, block)
            return
        if level:
            self._emit(Heard(feed.name, level))
        if (faults := feed.changed_faults()) is not None:
            self._emit(ChannelsJudged(feed.name, block.index, faults))
        self._step()

    def _attach(self, feed: Feed) -> bool:
        if not feed.attach():
            return False
        self._hearing.open(feed)
        config = self._config
        feed.prepare(config.frontend)
        feed.listener = self._listen(
            config.vad,
            config.endpoint,
            self._asr_of(feed),
            feed.spec.rate_hz,
            feed.checkpoint,
            source=feed.name,
            limit_s=self._limit_s,
        )
        return True

    def _detach(self, feed: Feed) -> None:
        if feed.attached:
            self._hearing.close(feed)
            feed.close()

    def _step(self) -> None:
        """Hand to the listeners what the front end makes of what was pushed."""
        heard = set()
        for block in self._hearing.heard():
            feed, sample = block.feed, block.sample
            heard.add(feed)
            if feed.listener is None or feed.muted or sample < feed.listen_from:
                continue
            if feed.voices is not None and (due := feed.voices.note(sample, block.voices)):
                self._emit(Located(feed.name, sample, due))
            audio = feed.input(sample, block.audio)
            self._act(feed, feed.listener.accept(sample, audio, feed.vad_prob))
        for feed in heard:
            feed.listened()

    def _act(self, feed: Feed, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Decode):
                self._queue.submit(action)
            else:
                self._emit(recognised(feed, action))

    def _collect(self) -> None:
        for result in self._queue.results():
            feed = self._feeds.get(result.decode.source)
            if feed is None or feed.listener is None:
                continue
            if result.transcript is None:
                self._emit(Notice(feed.name, Health("inference_failed", "error", str(result.error))))
                events = feed.listener.failed(result.decode)
            else:
                events = feed.listener.decoded(result.decode, result.transcript)
            for event in events:
                self._emit(recognised(feed, event))

    def _settle(self, feed: Feed) -> None:
        """Close what the device's loss or the end of the stream leaves open."""
        if not feed.attached or feed.behind:
            return
        if feed.lost:
            feed.lost = False
            self._finish(feed, "device_lost")
        elif feed.ended and not feed.flushed:
            feed.flushed = True
            self._finish(feed, feed.end_reason)
        elif feed.flushed and not feed.drained and not feed.pending:
            feed.drained = True
            self._emit(Drained(feed.name))
        elif feed.replaced:
            self._follow(feed)

    def _follow(self, feed: Feed) -> None:
        """The device came back with another format, in a new ring: attach to that one."""
        self._finish(feed, "gap")
        if not feed.pending:
            checkpoint = feed.current_checkpoint
            feed.checkpoint = Checkpoint(feed.position, checkpoint.utt, rate_hz=checkpoint.rate_hz)
            self._detach(feed)

    def _finish(self, feed: Feed, reason: EndReason) -> None:
        """End the open utterance with all audio that came before; the next block starts afresh."""
        if feed.listener is None:
            return
        if not feed.muted:
            self._hearing.flush(feed)
            self._step()
        self._act(feed, feed.listener.finish(reason))
        feed.interrupted = True

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
