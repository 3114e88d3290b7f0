"""One source as the recogniser sees it: its ring, its place in the front end, its listener."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from cosyd.asr.listener import Listener
from cosyd.config.schema import SourceConfig
from cosyd.errors import RingNotFound
from cosyd.ring import Block, RingReader, WriterState
from cosyd.runtime.level import LevelMeter
from cosyd.spec import AudioSpec
from cosyd.types import Checkpoint, Level

log = logging.getLogger("cosyd.runtime")

ATTACH_EVERY_S = 0.05  # how often to look whether the ring exists; a start waits this long at most
WARM_UP_S = 1.0  # audio before a checkpoint that settles the states of denoiser and VAD; not listened to


class Feed:
    """A source's reader and everything that belongs to it.

    ``lost_at``: sample at which the device went away and which has not been reached yet.
    ``warm_until``: blocks before this sample only warm the front end up.
    """

    def __init__(
        self, source: SourceConfig, ring_path: Path, checkpoint: Checkpoint, muted: bool, level_ms: int
    ) -> None:
        self.source = source
        self.checkpoint = checkpoint
        self.muted = muted
        self.slot = -1
        self.listener: Listener | None = None
        self.lost_at: int | None = None
        self.warm_until = 0
        self.flushed = False
        self.drained = False
        self.vad_prob = 0.0
        self.level_meter = LevelMeter(level_ms)
        self._path = ring_path
        self._reader: RingReader | None = None
        self._next_look = 0.0
        self._frames_read = 0

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def attached(self) -> bool:
        return self._reader is not None

    def attach(self) -> bool:
        """Attach to the ring if it exists by now."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + ATTACH_EVERY_S
        try:
            self._reader = self._open()
        except RingNotFound:
            return False
        self.flushed = self.drained = False
        return True

    def _open(self) -> RingReader:
        wanted = self.checkpoint.sample
        if wanted is None:
            return RingReader.attach(self._path)
        reader = RingReader.attach(self._path, position=wanted)
        start = max(0, wanted - reader.spec.frames(WARM_UP_S))
        reader.close()
        self.warm_until = wanted
        return RingReader.attach(self._path, position=start)

    def close(self) -> None:
        if self._reader:
            self._reader.close()
        self._reader = None
        self.listener = None

    @property
    def reader(self) -> RingReader:
        assert self._reader is not None, "not attached"
        return self._reader

    @property
    def spec(self) -> AudioSpec:
        return self.reader.spec

    @property
    def position(self) -> int:
        return self._reader.position if self._reader else (self.checkpoint.sample or 0)

    @property
    def lost_frames(self) -> int:
        return self._reader.lost_frames if self._reader else 0

    @property
    def behind(self) -> int:
        """Frames that are in the ring and not read yet."""
        return self._reader.write_index - self._reader.position if self._reader else 0

    @property
    def behind_s(self) -> float:
        return self.behind / self.spec.rate_hz if self._reader else 0.0

    @property
    def audio_s(self) -> float:
        return self._frames_read / self.spec.rate_hz if self._reader else 0.0

    @property
    def live(self) -> bool:
        return self._reader is not None and self._reader.writer is WriterState.LIVE

    @property
    def replaced(self) -> bool:
        return self._reader is not None and self._reader.writer is WriterState.REPLACED

    @property
    def ended(self) -> bool:
        """The writer said that nothing follows, and everything is read."""
        return self._reader is not None and self._reader.writer is WriterState.CLOSED and not self.behind

    def wait(self, timeout_s: float) -> bool:
        return self.reader.wait(timeout_s)

    def read(self, most_s: float) -> Block | None:
        block = self.reader.read(self.spec.frames(most_s))
        if block is not None:
            self._frames_read += len(block.frames)
        return block

    def intact(self, block: Block) -> bool:
        return self.reader.intact(block)

    def time_ns(self, sample: int) -> int:
        return self.reader.time_ns(sample) if self._reader else 0

    def meter(self, block: Block, emit: Callable[[Level], None]) -> None:
        """Feed the level meter; it reports every ``level_ms``."""
        level = self.level_meter.accept(block.frames, block.index, self.spec, self.vad_prob)
        if level:
            emit(level)
