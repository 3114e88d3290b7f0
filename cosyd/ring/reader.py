"""The reading end of a ring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np

from cosyd.errors import RingError
from cosyd.ring import _ring
from cosyd.ring.data import DTYPES, Block, WriterState, frame_shape
from cosyd.ring.faults import CORE_ERRORS, translate
from cosyd.ring.writer import FORMAT_CODES
from cosyd.spec import AudioSpec

_LIVE_EDGE = 2**64 - 1  # RING_LIVE_EDGE: beyond any write index
_FORMATS = {code: format for format, code in FORMAT_CODES.items()}
_STATES = {
    _ring.LIVE: WriterState.LIVE,
    _ring.CLOSED: WriterState.CLOSED,
    _ring.DEAD: WriterState.DEAD,
    _ring.REPLACED: WriterState.REPLACED,
}


class RingReader:
    """Reads a ring from its own position, which it alone moves. For one thread. Made by :meth:`attach`.

    Every frame of the source clock from the first position on is accounted for once: it is in a block, in a
    block's ``gap``, or in ``lost_frames``.
    """

    def __init__(self, core: _ring.Reader, path: Path) -> None:
        self._core = core
        self.path = path
        rate_hz, channels, code, self.capacity = core.constants()
        self.spec = AudioSpec(rate_hz, channels, _FORMATS[code])
        #: The ring's memory, twice in a row: blocks are slices of it, across the wrap, too.
        self._frames = np.frombuffer(core.view(), DTYPES[self.spec.format]).reshape(
            -1, *frame_shape(self.spec)
        )

    @classmethod
    def attach(cls, path: str | Path, *, position: int | None = None, leap: int = 0) -> RingReader:
        """Attaches at ``position`` of the source clock; None: at the live edge.

        A position older than what is kept moves to the oldest frame, and the frames between count as
        lost. A position that lies ahead of the writer moves to the live edge.

        ``leap``: the oldest frame is the next to be overwritten, so a reader that fell behind and goes on
        there falls behind again at once. While there is a writer, this one gives up so many frames more (half
        the ring at most), which count as lost, too.

        Raises RingNotFound, RingFormatError (not a ring, another version), or RingError.
        """
        path = Path(path).absolute()
        if position is not None and position < 0:
            raise RingError(f"ring {path}: no position {position}; the source clock begins at 0")
        try:
            core = _ring.attach(path, _LIVE_EDGE if position is None else position, leap)
        except CORE_ERRORS as error:
            raise translate(path, error) from error
        return cls(core, path)

    def _counters(self) -> tuple[int, int, int, int, bool]:
        try:
            return self._core.counters()
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    @property
    def position(self) -> int:
        """Source clock of the next frame to read."""
        return self._counters()[0]

    @property
    def write_index(self) -> int:
        """Source clock of the next frame to be written."""
        return self._counters()[1]

    @property
    def lost_frames(self) -> int:
        """Frames that this reader never had because they were overwritten first. Gaps do not count."""
        return self._counters()[2]

    @property
    def epoch(self) -> int:
        """Number of the writer: it grows when another process adopts the ring."""
        return self._counters()[3]

    @property
    def unread(self) -> int:
        """Frames from the position to the write index, gaps among them."""
        position, write_index, *_ = self._counters()
        return write_index - position

    @property
    def open(self) -> bool:
        """Whether no writer has said so far that nothing follows; one that was killed says nothing.

        ``writer`` knows that, too, but asks the system.
        """
        return self._counters()[4]

    @property
    def writer(self) -> WriterState:
        """How the writer is. Asks the system (some 20 µs, 100 after a sleep): not for every block."""
        try:
            return _STATES[self._core.state()]
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    def wait(self, timeout_s: float) -> bool:
        """Sleeps until there is something to read; False after ``timeout_s``.

        True also when the writer has ended: then ``read`` gives what is left, later None, and ``writer``
        says how. A writer that was killed cannot wake anybody: that is noticed within 250 ms, or at the
        time-out if that is sooner.
        """
        try:
            return self._core.wait(max(0, round(timeout_s * 1e9)))
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    def read(self, max_frames: int, timeout_s: float = 0.0) -> Block | None:
        """The next frames, at most ``max_frames`` of them and none across a gap; None: nothing new.

        Where nothing is there it waits first, as ``wait`` does, and is back sooner than with both calls.
        Nothing is copied: the block is a view into the ring. Until the next ``read`` or ``wait`` the block
        counts as in use (``RingWriter.slowest_reader``).
        """
        if max_frames <= 0:
            raise RingError(f"ring {self.path}: cannot read {max_frames} frames; ask for at least one")
        try:
            found = self._core.read(max_frames, max(0, round(timeout_s * 1e9)))
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error
        if found is None:
            return None
        index, start, end, lost, gap = found
        return Block(index, self._frames[start:end], lost, gap)

    def blocks(self, max_frames: int, timeout_s: float) -> Iterator[Block]:
        """Each as it comes, until the writer has ended or is gone and nothing is left. See ``read``.

        ``timeout_s``: of each wait; after it the writer is looked at.
        """
        while True:
            writer = self.writer  # before the read: what it wrote last is there then
            block = self.read(max_frames, timeout_s)
            if block is not None:
                yield block
            elif writer is not WriterState.LIVE:
                return

    def intact(self, block: Block) -> bool:
        """Whether what was read from ``block`` so far is what was captured: call it after using the frames.

        False: the writer has begun to overwrite it; drop what came of it. Its frames then count as lost,
        once, here and in the ``lost`` of the next block.
        """
        try:
            return self._core.intact(block.index, len(block.frames))
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    def time_ns(self, sample: int) -> int:
        """CLOCK_MONOTONIC at which frame ``sample`` was captured, by the newest frame's time and the rate.

        Before the first frame was written there is no time to go by, and the result is that of a ring
        whose frame 0 was captured at 0.
        """
        try:
            return self._core.time_ns(sample)
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    def close(self) -> None:
        """Leaves the ring; blocks that are still referred to stay valid. May be called again."""
        self._frames = self._frames[:0].copy()  # lets go of the memory
        self._core.close()

    def __enter__(self) -> RingReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
