"""The front end as the pipeline uses it: blocks of feeds in, blocks for their listeners out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cosyd.frontend.contract import StreamFrontEnd
from cosyd.frontend.stage import Samples
from cosyd.ring import Block
from cosyd.runtime.feed import Feed
from cosyd.types import Backend, Voice


@dataclass(frozen=True)
class HeardBlock:
    """``audio`` [block] whose first sample is ``sample`` in the source clock, and who speaks in it."""

    feed: Feed
    sample: int
    audio: Samples
    voices: tuple[Voice, ...]


class Hearing:
    """Borrows the front end. A feed that is open has a place in it."""

    def __init__(self, front_end: StreamFrontEnd) -> None:
        self._front_end = front_end
        self._by_slot: dict[int, Feed] = {}

    def open(self, feed: Feed) -> None:
        """Give an attached feed its place."""
        spec, array = feed.heard
        feed.slot = self._front_end.open(spec, feed.source.channel_map, feed.source.mix, array)
        self._front_end.lend(feed.slot, feed.reader.capacity)
        feed.interrupted = True
        self._by_slot[feed.slot] = feed

    def close(self, feed: Feed) -> None:
        self._by_slot.pop(feed.slot, None)
        self._front_end.close(feed.slot)

    def push(self, feed: Feed, block: Block) -> None:
        """Take audio in; after an interruption the front end begins anew with it."""
        if feed.interrupted:
            self.restart(feed, block)
            feed.restart()
        self._front_end.push(feed.slot, feed.frames(block), block.index)

    def restart(self, feed: Feed, block: Block) -> None:
        """Forget what was pushed; the clock stands at this block."""
        self._front_end.restart(feed.slot, block.index)

    def flush(self, feed: Feed) -> None:
        """Nothing follows for now: what waits for a whole block is to come out, too."""
        self._front_end.flush(feed.slot)

    def heard(self) -> Iterator[HeardBlock]:
        """Run the front end as long as any stream has a block. Each feed has its ``vad_prob`` by then."""
        while (batch := self._front_end.step()) is not None:
            for row, slot in enumerate(batch.slots):
                feed = self._by_slot[int(slot)]
                feed.vad_prob = float(batch.vad_prob[row])
                voices = batch.voices.get(int(slot), ())
                yield HeardBlock(feed, int(batch.samples[row]), batch.asr[row], voices)

    @property
    def backends(self) -> dict[str, Backend]:
        return self._front_end.backends

    def backends_of(self, feed: Feed) -> dict[str, Backend]:
        """What its stages run on; nothing before it is open."""
        return self._front_end.backends_of(feed.slot) if feed.attached else {}
