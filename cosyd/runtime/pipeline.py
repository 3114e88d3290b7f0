"""Recognition of many sources on one thread: rings → front end → listeners → decode queue → events.

``Pipeline.turn()`` does what is possible now and waits for audio at most ``timeout_s``. The recognition worker
calls it for ever; offline transcription calls it until the file is drained. Both see the same code.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from cosyd.asr.decode_queue import DecodeQueue, Decoded
from cosyd.asr.listener import Decode, Listener
from cosyd.config.schema import Config, SourceConfig
from cosyd.frontend.frontend import FrontEnd
from cosyd.runtime.feed import Feed
from cosyd.runtime.ipc import (
    Drained,
    FromWorker,
    GapSeen,
    Heard,
    Notice,
    RecognitionProgress,
    Recognized,
    SourceProgress,
)
from cosyd.types import Checkpoint, EndReason, Health, RecognitionEvent

log = logging.getLogger("cosyd.runtime")

IDLE_WAIT_S = 0.05  # how long a turn waits when no ring is attached yet
READ_S = 0.25  # most audio taken from one ring in one turn, so that sources take turns


class Pipeline:
    """Owns the feeds and what listens to them; borrows the front end and the decode queue."""

    def __init__(
        self, config: Config, front_end: FrontEnd, queue: DecodeQueue, emit: Callable[[FromWorker], None]
    ) -> None:
        self._config = config
        self._front_end = front_end
        self._queue = queue
        self._emit = emit
        self._feeds: dict[str, Feed] = {}
        self._by_slot: dict[int, Feed] = {}

    # --- sources ---

    def add_source(self, source: SourceConfig, ring_path: Path, checkpoint: Checkpoint, muted: bool) -> None:
        """Read this source from its checkpoint on; its ring may not exist yet."""
        self._feeds[source.name] = Feed(source, ring_path, checkpoint, muted, self._config.publish.level_ms)

    def remove_source(self, name: str) -> None:
        feed = self._feeds.pop(name, None)
        if feed:
            self._finish(feed, "shutdown")
            self._detach(feed)

    def set_muted(self, name: str, muted: bool) -> None:
        feed = self._feeds.get(name)
        if feed and feed.muted != muted:
            feed.muted = muted
            if muted:
                self._finish(feed, "muted")

    def lose_source(self, name: str, sample: int) -> None:
        """The device went away at ``sample``: once that far, the open utterance ends with that reason."""
        feed = self._feeds.get(name)
        if feed:
            feed.lost_at = sample

    def reconfigure(self, config: Config) -> None:
        """Apply live keys; open utterances live on."""
        self._config = config
        for feed in self._feeds.values():
            feed.level_meter.period_ms = config.publish.level_ms
            if feed.listener:
                feed.listener.reconfigure(config.vad, config.endpoint, config.asr)

    def close(self) -> None:
        """End all that is open, wait for its results, let go of the rings."""
        for name in list(self._feeds):
            feed = self._feeds[name]
            self._finish(feed, "shutdown")
        while self._queue.pending:
            self._collect(wait_s=IDLE_WAIT_S)
        self._collect()
        for feed in self._feeds.values():
            self._detach(feed)
        self._feeds.clear()

    # --- turning ---

    def turn(self, timeout_s: float) -> bool:
        """One round; True if any audio moved."""
        moved = False
        if not self._queue.full:  # else the rings keep the audio until the recogniser has caught up
            for feed in self._feeds.values():
                moved |= self._read(feed)
            self._step()
        self._collect()
        for feed in self._feeds.values():
            self._settle(feed)
        if not moved:
            self._wait(timeout_s)
        return moved

    def _wait(self, timeout_s: float) -> None:
        """Sleep until one live ring has audio or a result is due.

        One ring wakes the thread for all: every live source delivers about every 10 ms, and a block of the
        front end takes 32 ms to fill.
        """
        feed = next((f for f in self._feeds.values() if f.live), None)
        if feed and not self._queue.pending:
            feed.wait(min(timeout_s, IDLE_WAIT_S))
        else:
            self._collect(wait_s=min(timeout_s, IDLE_WAIT_S / 5))

    def _read(self, feed: Feed) -> bool:
        if not feed.attached and not self._attach(feed):
            return False
        block = feed.read(READ_S)
        if block is None:
            return False
        if block.gap or block.lost:
            self._emit(GapSeen(feed.name, block.index, block.gap, block.lost))
            self._finish(feed, "gap")
            self._front_end.restart(feed.slot, block.index)
        self._front_end.push(feed.slot, block.frames, block.index)
        feed.meter(block, self._emit_level(feed))
        if not feed.intact(block):
            log.warning("%s: audio was overwritten while it was read; the recogniser is too slow", feed.name)
        return True

    def _attach(self, feed: Feed) -> bool:
        if not feed.attach():
            return False
        source = feed.source
        feed.slot = self._front_end.open(feed.spec, source.channel_map, source.mix)
        self._front_end.restart(feed.slot, feed.position)
        feed.listener = Listener(
            self._config.vad, self._config.endpoint, self._config.asr, feed.spec.rate_hz, feed.checkpoint
        )
        self._by_slot[feed.slot] = feed
        return True

    def _detach(self, feed: Feed) -> None:
        if feed.attached:
            self._by_slot.pop(feed.slot, None)
            self._front_end.close(feed.slot)
            feed.close()

    def _step(self) -> None:
        """Run the front end as long as any stream has a block."""
        while (batch := self._front_end.step()) is not None:
            for row, slot in enumerate(batch.slots):
                feed = self._by_slot[int(slot)]
                feed.vad_prob = float(batch.vad_prob[row])
                if feed.muted or int(batch.samples[row]) < feed.warm_until:
                    continue
                assert feed.listener is not None
                self._act(feed, feed.listener.accept(int(batch.samples[row]), batch.asr[row], feed.vad_prob))

    def _act(self, feed: Feed, actions: list[RecognitionEvent | Decode]) -> None:
        for action in actions:
            if isinstance(action, Decode):
                self._queue.submit(feed.name, action)
            else:
                self._tell(feed, action)

    def _collect(self, wait_s: float = 0.0) -> None:
        for result in self._queue.results(wait_s):
            feed = self._feeds.get(result.source)
            if feed is None or feed.listener is None:
                continue
            if result.error:
                self._complain(result)
            for event in feed.listener.decoded(result.decode, result.transcript):
                self._tell(feed, event)

    def _settle(self, feed: Feed) -> None:
        """Close what the device's loss or the end of the stream leaves open."""
        if not feed.attached:
            return
        if feed.lost_at is not None and feed.position >= feed.lost_at:
            feed.lost_at = None
            self._finish(feed, "device_lost")
        if feed.replaced and not feed.behind:
            self._finish(feed, "gap")
            if not self._queue.pending_of(feed.name):
                feed.checkpoint = Checkpoint(utt=self._checkpoint(feed).utt)
                self._detach(feed)
        elif feed.ended and not feed.flushed:
            feed.flushed = True
            self._finish(feed, "end_of_stream")
        elif feed.flushed and not feed.drained and not self._queue.pending_of(feed.name):
            feed.drained = True
            self._emit(Drained(feed.name))

    def _finish(self, feed: Feed, reason: EndReason) -> None:
        """End the open utterance, with all audio that came before."""
        if not feed.attached or feed.listener is None:
            return
        self._front_end.flush(feed.slot)
        self._step()
        self._act(feed, feed.listener.finish(reason))

    # --- telling ---

    def _tell(self, feed: Feed, event: RecognitionEvent) -> None:
        end = getattr(event, "end_sample", None)
        captured_ns = feed.time_ns(end) if end is not None else 0
        self._emit(
            Recognized(feed.name, event, self._checkpoint(feed), feed.spec.rate_hz, captured_ns, feed.vad_prob)
        )

    def _emit_level(self, feed: Feed) -> Callable[[object], None]:
        return lambda level: self._emit(Heard(feed.name, level))  # type: ignore[arg-type]

    def _complain(self, result: Decoded) -> None:
        self._emit(Notice(result.source, Health("inference_failed", "error", str(result.error))))

    def _checkpoint(self, feed: Feed) -> Checkpoint:
        return feed.listener.checkpoint if feed.listener else feed.checkpoint

    def progress(self) -> RecognitionProgress:
        """A snapshot for the daemon."""
        statistics = self._queue.statistics()
        return RecognitionProgress(
            {
                name: SourceProgress(
                    feed.position,
                    self._checkpoint(feed),
                    feed.behind_s,
                    feed.lost_frames,
                    feed.audio_s,
                    feed.vad_prob,
                )
                for name, feed in self._feeds.items()
            },
            statistics.depth,
            statistics.coalesced,
            time.monotonic() - statistics.busy_since if statistics.busy_since else 0.0,
            statistics.decodes,
            statistics.decode_s,
        )
