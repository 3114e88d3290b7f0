"""The writing end of a ring."""

from __future__ import annotations

import fcntl
import math
import os
from pathlib import Path
from types import TracebackType

from cosyd.errors import RingError
from cosyd.ring import _ring
from cosyd.ring.data import Frames, ReaderStatistics, WriterStatistics
from cosyd.ring.faults import CORE_ERRORS, translate
from cosyd.spec import AudioSpec, SampleFormat

FORMAT_CODES = {
    SampleFormat.S16: _ring.S16,
    SampleFormat.S24: _ring.S24,
    SampleFormat.S32: _ring.S32,
    SampleFormat.F32: _ring.F32,
}


def remove_ring(path: str | Path) -> bool:
    """Removes the ring that an ended or killed writer has left.

    Returns False if there is none, or if a living writer has it. Who reads it already keeps what it has.
    """
    path = Path(path)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RingError(f"ring {path}: cannot be removed: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # whoever writes or replaces it has this lock
        if not _lies_at(descriptor, path):
            return False
        path.unlink()
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _lies_at(descriptor: int, path: Path) -> bool:
    """Whether it is still this file, and not the next one, that has the name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


class RingWriter:
    """Writes a ring. It never waits for a reader.

    A writer belongs to one thread at a time, or to one PortAudio stream (``callback_address`` and
    ``userdata_address``); keep the object until the stream is closed. Made by :meth:`open`.
    """

    def __init__(self, core: _ring.Writer, path: Path, spec: AudioSpec) -> None:
        self._core = core
        self.path = path
        self.spec = spec
        #: Addresses for PortAudio: a PaStreamCallback that never touches Python, and its user data.
        self.capacity, self.adopted, self.callback_address, self.userdata_address = core.constants()

    @classmethod
    def open(cls, path: str | Path, spec: AudioSpec, buffer_s: float, *, start_index: int = 0) -> RingWriter:
        """Creates the ring, or takes over what a dead writer left.

        A left-over of the same spec and capacity is adopted: epoch + 1, its clock and frames are kept
        (``start_index`` does not count then). Any other left-over is replaced, and its readers are told.
        The capacity is ``buffer_s`` seconds, rounded up to whole pages. The memory is claimed at once.

        Raises RingBusy if a living writer has it, RingError for what the system refuses.
        """
        path = Path(path).absolute()
        frames = math.ceil(buffer_s * spec.rate_hz)
        try:
            core = _ring.open_writer(
                path, spec.rate_hz, spec.channels, FORMAT_CODES[spec.format], max(frames, 0), start_index
            )
        except CORE_ERRORS as error:
            raise translate(path, error) from error
        return cls(core, path, spec)

    @property
    def epoch(self) -> int:
        """Number of this writer: 1 for the first of the file, one more with each adoption."""
        return self._core.counters()[1]

    @property
    def write_index(self) -> int:
        """Source clock: index of the next frame to be written."""
        return self._core.counters()[0]

    @property
    def last_write_ns(self) -> int:
        """CLOCK_MONOTONIC of the newest frame, also an earlier writer's; 0 before the first."""
        return self._core.last_ns()

    def write(self, data: Frames, t_ns: int | None = None) -> int:
        """Copies whole frames in and wakes the readers; returns how many frames.

        ``data``: any C-contiguous buffer of bytes or of the ring's sample type. ``t_ns``: CLOCK_MONOTONIC
        at which the last frame was captured; None: now. Raises RingError if the data does not fit.
        """
        try:
            return self._core.write(data, -1 if t_ns is None else t_ns)
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    def play(self, data: Frames, step: int, begin_ns: int) -> int:
        """Writes whole frames as a device would deliver them, ``step`` at a time; returns how many frames.

        Their first begins at ``begin_ns`` of CLOCK_MONOTONIC, and each step is written when its last frame is
        due. Returns after the last one; sleeps without Python meanwhile. What is overdue is written at once.
        Raises RingError as ``write`` does.
        """
        if step < 1:
            raise RingError(f"ring {self.path}: cannot play {step} frames at a time; at least one")
        try:
            return self._core.play(data, step, begin_ns)
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    def time_writes(self, data: bytes, rounds: int, pause_ns: int = 0) -> list[int]:
        """Writes ``data`` ``rounds`` times in a C loop; how long each took, in ns. For benchmarks.

        Before each it sleeps for ``pause_ns``, as a device's thread does between blocks. Each write's time is
        that at which it began.
        """
        try:
            return self._core.time_writes(data, rounds, pause_ns)
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    def skip(self, frames: int) -> None:
        """Moves the clock on by ``frames`` that were never captured; readers are told of a gap."""
        if frames < 0:
            raise RingError(f"ring {self.path}: cannot skip {frames} frames; the clock never goes back")
        try:
            self._core.skip(frames)
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    def arm(self, anchor: tuple[int, int] | None) -> None:
        """Before a source starts that delivers when it likes: its first block then skips what was missed.

        ``anchor``: an index of the source clock and the CLOCK_MONOTONIC ns at which that frame would have
        been the next one. The next write (or callback) records a gap from ``write_index`` to where
        the clock stood at the first frame of its block, and writes after it. None: no frame is missed.
        """
        index, t_ns = (0, -1) if anchor is None else anchor
        try:
            self._core.arm(index, t_ns)
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    @property
    def resumed(self) -> int | None:
        """Index of the first frame after the last ``arm``; None until it has come.

        Known before ``write_index`` moves.
        """
        return self._core.resumed()

    def count_overrun(self, frames: int = 0) -> None:
        """Counts that the device lost input: ``frames`` of it, as far as anybody knows."""
        try:
            self._core.count_overrun(frames)
        except CORE_ERRORS as error:
            raise translate(self.path, error) from error

    def slowest_reader(self) -> int | None:
        """Position of the living reader that is furthest behind; None without a reader.

        Frames before it are no longer in use: a writer that keeps ``write_index - slowest_reader()``
        within the capacity overwrites nothing that anybody still needs.
        """
        return min((position for _pid, position, _lost in self._core.readers()), default=None)

    def statistics(self) -> WriterStatistics:
        """Counters and living readers; also after close."""
        readers = tuple(ReaderStatistics(*reader) for reader in self._core.readers())
        return WriterStatistics(*self._core.counters(), readers)

    def close(self, unlink: bool = True) -> None:
        """Ends the ring: readers are woken and told, and the file is removed unless ``unlink`` is False.

        A running callback is let out first; a later one tells PortAudio to stop. May be called again.
        """
        self._core.close(unlink)

    def __enter__(self) -> RingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
