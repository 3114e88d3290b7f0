"""The path of a source's audio: its ring → the front end → its listener → the decode queue → events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from cosyd.asr.decode import Decode
from cosyd.asr.listener import Listener
from cosyd.asr.listening import Action
from cosyd.asr.recognition import RecognitionQueue, SourceListener
from cosyd.config.schema import AsrConfig, Config
from cosyd.frontend.contract import STEP_BLOCKS
from cosyd.ring import Block
from cosyd.runtime.feed import Feed
from cosyd.runtime.hearing import Hearing
from cosyd.runtime.ipc import ChannelsJudged, FromWorker, GapSeen, Heard, Located, Notice
from cosyd.runtime.reports import recognised
from cosyd.spec import FRAME
from cosyd.types import EndReason, Health

log = logging.getLogger("cosyd.runtime")

READ_S = STEP_BLOCKS * FRAME.block_ms / 1000  # most audio taken from one ring in one turn: sources take turns


class AudioPath:
    """What becomes of the audio of the feeds that are attached to it; borrows ``hearing`` and the queue.

    ``limit_s`` is the longest audio that the recogniser behind the queue takes; ``listen`` makes the listener
    of one source for it.
    """

    def __init__(
        self,
        config: Config,
        hearing: Hearing,
        queue: RecognitionQueue,
        limit_s: float,
        emit: Callable[[FromWorker], None],
        listen: Callable[..., SourceListener] = Listener,
    ) -> None:
        self._config = config
        self._hearing = hearing
        self._queue = queue
        self._limit_s = limit_s
        self._emit = emit
        self._listen = listen

    def read(self, feed: Feed) -> bool:
        """Attach to its ring as soon as there is one, and take a block; False: nothing was there."""
        if not feed.attached and not self._attach(feed):
            return False
        block = feed.read(READ_S) if feed.ready else None
        if block is None:
            return False
        self._take(feed, block)
        return True

    def read_to_end(self, feed: Feed, deadline: float) -> None:
        """Recognise what its device delivered before it was closed, as far as there is time."""
        while feed.attached and time.monotonic() < deadline and (block := feed.read(READ_S)) is not None:
            self._take(feed, block)

    def finish(self, feed: Feed, reason: EndReason) -> None:
        """End the open utterance with all audio that came before; the next block starts afresh."""
        if feed.listener is None:
            return
        if not feed.muted:
            self._hearing.flush(feed)
            self._step()
        self._act(feed, feed.listener.finish(reason))
        feed.interrupted = True

    def collect(self, feeds: Mapping[str, Feed]) -> None:
        """Give the results that are ready to their listeners."""
        for result in self._queue.results():
            feed = feeds.get(result.decode.source)
            if feed is None or feed.listener is None:
                continue
            if result.transcript is None:
                self._emit(Notice(feed.name, Health("inference_failed", "error", str(result.error))))
                events = feed.listener.failed(result.decode)
            else:
                events = feed.listener.decoded(result.decode, result.transcript)
            for event in events:
                self._emit(recognised(feed, event))

    def reconfigure(self, config: Config, feeds: Iterable[Feed]) -> None:
        """Apply live keys to these and to what comes; open utterances live on."""
        self._config = config
        for feed in feeds:
            if feed.listener:
                feed.prepare(config.frontend)
                feed.listener.reconfigure(config.vad, config.endpoint, self._asr_of(feed))

    def detach(self, feed: Feed) -> None:
        """Give up its ring and its place; what is open or waits is not told of any more."""
        if feed.attached:
            self._hearing.close(feed)
            feed.close()

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

    def _asr_of(self, feed: Feed) -> AsrConfig:
        """With the hotwords of the source beside those of all."""
        named = {source.name: source for source in self._config.sources}
        own = named.get(feed.name, feed.source).hotwords
        asr = self._config.asr
        return asr.model_copy(update={"hotwords": (*asr.hotwords, *own)}) if own else asr

    def _take(self, feed: Feed, block: Block) -> None:
        if block.gap or block.lost:
            self._emit(GapSeen(feed.name, block.index, block.gap, block.lost))
            self.finish(feed, "device_lost" if feed.lost else "gap")
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
