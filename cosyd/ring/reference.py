"""The ring's semantics in plain Python, in one process: what the C ring is tested against.

It keeps every frame that was ever written, so that each rule can be stated directly instead of being
derived from indices: a frame is audio, or a gap (None), and it is kept or not. Slow and ever growing by
intent; nothing but tests should use it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.ring.data import (
    DTYPES,
    Block,
    Frames,
    ReaderStatistics,
    WriterState,
    WriterStatistics,
    frame_shape,
)
from cosyd.spec import AudioSpec

KNOWN_GAPS = 63  # the newest gaps that a ring remembers (RING_GAPS - 1 in ring_core.h)


class ReferenceRing:
    """Ring and writer in one."""

    def __init__(self, spec: AudioSpec, capacity: int, *, start_index: int = 0) -> None:
        self.spec = spec
        self.capacity = capacity
        self.epoch = 1
        self.begin = start_index
        self.state = WriterState.LIVE
        self.readers: list[ReferenceReader] = []
        self._frames: list[bytes | None] = []
        self._gaps: list[tuple[int, int]] = []  # start, end
        self._overruns = 0
        self._overrun_frames = 0
        self.last_write_ns = 0
        self.resumed: int | None = None
        self._armed = False
        self._anchor: tuple[int, int] | None = None

    @property
    def write_index(self) -> int:
        return self.begin + len(self._frames)

    def write(self, data: Frames, t_ns: int | None = None) -> int:
        raw = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
        size = self.spec.frame_bytes
        frames = [raw[at : at + size] for at in range(0, len(raw), size)]
        if not frames:
            return 0
        self.last_write_ns = time.monotonic_ns() if t_ns is None else t_ns
        if self._armed:
            self._resume(len(frames))
        self._frames += frames
        return len(frames)

    def arm(self, anchor: tuple[int, int] | None) -> None:
        """The next write first skips what was missed until its first frame."""
        self._armed, self._anchor, self.resumed = True, anchor, None

    def _resume(self, frames: int) -> None:
        """The clock is to stand where it would if nothing had been missed when the block has been written."""
        missed = 0
        if self._anchor is not None:
            index, t_ns = self._anchor
            due = index + max(0, self.last_write_ns - t_ns) * self.spec.rate_hz // 1_000_000_000
            missed = max(0, due - frames - self.write_index)
        self._armed, self.resumed = False, self.write_index + missed
        self.skip(missed)

    def skip(self, frames: int) -> None:
        """A gap. One that follows the last gap directly is the same gap."""
        if frames == 0:
            return
        start, end = self.write_index, self.write_index + frames
        if self._gaps and self._gaps[-1][1] == start:
            start = self._gaps.pop()[0]
        self._gaps.append((start, end))
        self._frames += [None] * frames

    def count_overrun(self, frames: int = 0) -> None:
        self._overruns += 1
        self._overrun_frames += frames

    def reopen(self) -> None:
        """Another writer adopts the ring."""
        self.epoch += 1
        self.state = WriterState.LIVE
        self._armed, self.resumed = False, None

    def close(self) -> None:
        self.state = WriterState.CLOSED

    def attach(self, *, position: int | None = None, leap: int = 0) -> ReferenceReader:
        reader = ReferenceReader(self, self.write_index if position is None else position, leap)
        self.readers.append(reader)
        return reader

    def slowest_reader(self) -> int | None:
        return min((reader.in_use for reader in self.readers), default=None)

    def statistics(self) -> WriterStatistics:
        readers = (ReaderStatistics(os.getpid(), reader.in_use, reader.told_lost) for reader in self.readers)
        return WriterStatistics(
            self.write_index, self.epoch, self._overruns, self._overrun_frames, 0, tuple(readers)
        )

    # --- what a reader asks

    def frame(self, index: int) -> bytes | None:
        return self._frames[index - self.begin]

    def overwritten_before(self) -> int:
        """Frames before it are no longer in memory."""
        return max(self.begin, self.write_index - self.capacity)

    def forgotten_before(self) -> int:
        """End of the newest gap that is no longer remembered: what lies before it cannot be told apart."""
        return self._gaps[-KNOWN_GAPS - 1][1] if len(self._gaps) > KNOWN_GAPS else 0


class ReferenceReader:
    """One reader; see :class:`cosyd.ring.RingReader`."""

    def __init__(self, ring: ReferenceRing, position: int, leap: int) -> None:
        self._ring = ring
        self._leap = min(leap, ring.capacity // 2)
        self.position = min(position, ring.write_index)
        self.lost_frames = 0
        self.in_use = self.position  # what the ring shows of this reader,
        self.told_lost = 0  # as of its last read or wait
        self._untold_before = max(ring.begin, ring.forgotten_before())  # nobody can say what was a gap there
        self._next_lost = 0
        self._next_gap = 0
        self._spoilt_end = 0
        self._settle()

    def wait(self, timeout_s: float = 0.0) -> bool:
        """As if the time-out were 0."""
        self._settle()
        return self.position < self._ring.write_index or self._ring.state is not WriterState.LIVE

    def read(self, max_frames: int, timeout_s: float = 0.0) -> Block | None:
        """As if the time-out were 0."""
        self._settle()
        frames = [frame for _, frame in zip(range(max_frames), self._audio(), strict=False)]
        if not frames:
            return None
        block = Block(self.position, self._array(frames), self._next_lost, self._next_gap)
        self._next_lost = self._next_gap = 0
        self.position += len(frames)
        return block

    def intact(self, block: Block) -> bool:
        if block.index >= self._ring.overwritten_before():
            return True
        if block.index >= self._spoilt_end:
            self._spoilt_end = block.end
            self._lose(len(block.frames))
        return False

    def close(self) -> None:
        if self in self._ring.readers:
            self._ring.readers.remove(self)

    def _settle(self) -> None:
        """Passes over, one by one, the frames that cannot be read."""
        ring = self._ring
        overwritten = ring.overwritten_before()
        if ring.begin < overwritten and self.position < overwritten and ring.state is WriterState.LIVE:
            overwritten += self._leap
        readable = max(overwritten, ring.forgotten_before())
        while self.position < ring.write_index:
            known = self.position >= self._untold_before
            gap = known and ring.frame(self.position) is None
            if not gap and self.position >= readable:
                break
            self.position += 1
            if gap:
                self._next_gap += 1
            else:
                self._lose(1)
        self.in_use = self.position
        self.told_lost = self.lost_frames

    def _lose(self, frames: int) -> None:
        self.lost_frames += frames
        self._next_lost += frames

    def _audio(self) -> Iterator[bytes]:
        """Frames from the position on, as far as there is no gap."""
        for index in range(self.position, self._ring.write_index):
            frame = self._ring.frame(index)
            if frame is None:
                return
            yield frame

    def _array(self, frames: list[bytes]) -> NDArray[Any]:
        spec = self._ring.spec
        return np.frombuffer(b"".join(frames), DTYPES[spec.format]).reshape(-1, *frame_shape(spec))
