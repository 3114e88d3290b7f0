"""The ring of one source as the recogniser reads it: attached when it is there, and how its writer is."""

from __future__ import annotations

import time

from cosyd.ring import Block, RingReader, WriterState
from cosyd.spec import AudioSpec

LIFE_EVERY_S = 1.0  # how often to ask whether a writer that has not ended lives: some system calls each time
STATE_EVERY_S = 0.05  # how often to ask how one is that has ended: whether another follows


class RingFeed:
    """Reads from where it was attached on. ``read_at``: when it last had audio."""

    def __init__(self) -> None:
        self._reader: RingReader | None = None
        self.read_at = 0.0
        self._frames_read = 0
        self._state = WriterState.LIVE
        self._next_state = 0.0

    @property
    def attached(self) -> bool:
        return self._reader is not None

    @property
    def reader(self) -> RingReader:
        assert self._reader is not None, "not attached"
        return self._reader

    @property
    def spec(self) -> AudioSpec:
        return self.reader.spec

    @property
    def lost_frames(self) -> int:
        return self._reader.lost_frames if self._reader else 0

    @property
    def behind(self) -> int:
        """Frames that are in the ring and not read yet."""
        return self._reader.unread if self._reader else 0

    @property
    def behind_s(self) -> float:
        return self.behind / self.spec.rate_hz if self._reader else 0.0

    @property
    def audio_s(self) -> float:
        return self._frames_read / self.spec.rate_hz if self._reader else 0.0

    @property
    def live(self) -> bool:
        return self._reader is not None and self._writer_state() is WriterState.LIVE

    @property
    def replaced(self) -> bool:
        return self._writer_state() is WriterState.REPLACED

    @property
    def ended(self) -> bool:
        """The writer said that nothing follows."""
        return self._writer_state() is WriterState.CLOSED

    def _writer_state(self) -> WriterState:
        """How the writer is, asked now and then; that it has ended is known at once."""
        now = time.monotonic()
        going_on = self.reader.open
        if now >= self._next_state or (self._state is WriterState.LIVE and not going_on):
            self._next_state = now + (LIFE_EVERY_S if going_on else STATE_EVERY_S)
            self._state = self.reader.writer
        return self._state

    def wait(self, timeout_s: float) -> None:
        """Sleep until the device delivers something."""
        self.reader.wait(timeout_s)

    def _read(self, most: int) -> Block | None:
        block = self.reader.read(most)
        if block is not None:
            self._frames_read += len(block.frames)
            self.read_at = time.monotonic()
        return block

    def intact(self, block: Block) -> bool:
        return self.reader.intact(block)

    def time_ns(self, sample: int) -> int:
        return self.reader.time_ns(sample) if self._reader else 0
