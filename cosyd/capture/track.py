"""The ring of one source through openings, losses and restarts: a clock that never goes back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from cosyd.capture.bounded import DriverHangs
from cosyd.capture.progress import Progress, Report
from cosyd.errors import RingError
from cosyd.ring import RingReader, RingWriter, WriterState
from cosyd.spec import AudioSpec
from cosyd.types import DeviceLost, DeviceOpened, GapRecorded, SourceEnded

log = logging.getLogger(__name__)

_ABANDONED: list[RingWriter] = []  # kept mapped until the process has ended; at most one in each process


class Track:
    """Owns the ring's writer and tells the daemon what becomes of the source.

    Order: ``prepare`` a spec; ``arm`` it before a device starts, or ``catch_up`` just before a frame that is
    at hand; ``opened`` once there is one; ``tick`` often; ``lost`` when it goes away, then from the start
    again. ``close`` removes the ring, unless the source has ``ended``: then it stays, closed, for whoever
    reads it late.
    """

    def __init__(
        self,
        path: Path,
        buffer_s: float,
        report: Report,
        *,
        measure_drift: bool = False,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._path = path
        self._buffer_s = buffer_s
        self._report = report
        self._now_ns = now_ns
        self._progress = Progress(path.name, report, measure_drift=measure_drift)
        self._writer: RingWriter | None = None
        self._gap_start: int | None = None  # index at which frames stopped coming; None: nothing is missing
        self._resume_at: int | None = 0  # index of the first frame after the last opening; None: armed
        self._anchor: tuple[int, int] | None = None  # (index, monotonic ns): where the clock was last known
        self._capturing = False
        self._reopened = False

    # --- the ring --------------------------------------------------------------------------------------

    @property
    def ring(self) -> RingWriter:
        if self._writer is None:
            raise RingError(f"{self._path}: used before it was opened")
        return self._writer

    @property
    def index(self) -> int:
        """Where the source clock stands."""
        return 0 if self._writer is None else self._writer.write_index

    @property
    def resume_at(self) -> int | None:
        """Index of the first frame after the last opening; None: armed, and it has not come yet."""
        return self.ring.resumed if self._resume_at is None else self._resume_at

    @property
    def capturing(self) -> bool:
        return self._capturing

    def prepare(self, spec: AudioSpec) -> RingWriter:
        """The ring for ``spec``: the one there is, a left-over of a killed process, or a new one at the path.

        After a change of format the clock goes on from the same second, counted in the new rate.
        """
        if self._writer is not None and self._writer.spec == spec:
            return self._writer
        if self._writer is not None:
            start_index = self._replace(self._writer, spec)
            self._writer = RingWriter.open(self._path, spec, self._buffer_s, start_index=start_index)
        else:
            self._writer = self._first(spec)
        self._progress.follow(self._writer)
        return self._writer

    def _first(self, spec: AudioSpec) -> RingWriter:
        """The first ring of this process; the clock goes on from one that a killed process has left."""
        left_over = _peek(self._path)
        start_index = 0
        if left_over is not None:
            log.warning("%s: going on after frame %d of a killed process", self._path, left_over.index)
            start_index = self._carry(left_over, spec)
        return RingWriter.open(self._path, spec, self._buffer_s, start_index=start_index)

    def _replace(self, old: RingWriter, spec: AudioSpec) -> int:
        """Ends the ring of another format. Returns where the clock of the next one starts."""
        log.info("%s: format changes from %s to %s", self._path.name, old.spec, spec)
        self._drop_anchor()
        clock = self._clock(old)
        self._progress.leave(old)
        old.close(unlink=True)
        self._writer = None
        return self._carry(clock, spec)

    def _clock(self, ring: RingWriter) -> _Clock:
        index, (anchor, t_ns) = ring.write_index, self._anchor or (ring.write_index, self._now_ns())
        skipped_ns = (index - anchor) * 1_000_000_000 // ring.spec.rate_hz
        return _Clock(ring.spec, index, t_ns + skipped_ns)

    def _carry(self, old: _Clock, spec: AudioSpec) -> int:
        """The clock in another rate at the same second, rounded up so that it does not go back."""
        start = _rescaled(old.index, old.spec, spec)
        self._anchor = (start, old.t_ns)
        self._gap_start = start if self._gap_start is None else _rescaled(self._gap_start, old.spec, spec)
        self._reopened = True
        return start

    # --- the clock -------------------------------------------------------------------------------------

    def missed_frames(self) -> int:
        """Frames that the source would have delivered since its clock was last known."""
        if self._anchor is None:
            return 0
        index, t_ns = self._anchor
        elapsed = max(0, self._now_ns() - t_ns) * self.ring.spec.rate_hz // 1_000_000_000
        return max(0, index + elapsed - self.ring.write_index)

    def arm(self) -> None:
        """Have the ring skip what was missed up to the first frame that it is given, whenever that comes."""
        self._drop_anchor()
        self.ring.arm(self._anchor)
        self._resume_at = None

    def catch_up(self, at_most: int | None = None) -> int:
        """Skip what was missed: call just before the next frame is captured. Returns the frames skipped."""
        self._drop_anchor()
        missed = self.missed_frames()
        if at_most is not None:
            missed = min(missed, at_most)
        if missed:
            self.ring.skip(missed)
        self._resume_at = self.ring.write_index
        return missed

    def _drop_anchor(self) -> None:
        """Remember the newest frame; while the device is being closed, a last one may still have come."""
        if self._writer is not None and self._writer.last_write_ns > (self._anchor or (0, 0))[1]:
            self._report_gap(self.resume_at or 0)  # of an opening that failed although frames came
            self._anchor = (self._writer.write_index, self._writer.last_write_ns)
            self._gap_start = self._writer.write_index

    def resume_exactly(self) -> None:
        """Nothing was missed: the source goes on with the very next frame."""
        self._resume_at = self.ring.write_index

    def skip(self, frames: int) -> None:
        """A gap in the middle of a source that is open: these frames were lost. Reported at once."""
        self._report(GapRecorded(self.ring.write_index, frames))
        self.ring.skip(frames)

    # --- the device ------------------------------------------------------------------------------------

    def opened(self, device: str) -> None:
        """The source delivers (``resume_at`` is known): reports the gap and the opening."""
        spec, start = self.ring.spec, self.resume_at
        if start is None:
            raise RingError(f"{self._path}: opened before a frame came")
        self._report_gap(start)
        self._gap_start = self._anchor = None
        self._capturing = True
        self._progress.restart(self.ring)
        log.info("%s: %s %r, %s", self._path.name, "reopened" if self._reopened else "opened", device, spec)
        self._report(
            DeviceOpened(start, device, spec.rate_hz, spec.channels, spec.format.value, self._reopened)
        )
        self._reopened = True

    def _report_gap(self, end: int) -> None:
        """Unless it is known already, or there is none."""
        if self._gap_start is not None and end > self._gap_start:
            self._report(GapRecorded(self._gap_start, end - self._gap_start))

    def lost(self, reason: str) -> None:
        """The source delivers no more, or could not be opened."""
        self._drop_anchor()
        self._capturing = False
        log.warning("%s: %s", self._path.name, reason)
        self._report(DeviceLost(self.index, reason))

    def ended(self) -> None:
        """Nothing follows. Readers are told so; the ring stays at its path, for those that come late."""
        self._capturing = False
        self._report(SourceEnded(self.index))
        self.ring.close(unlink=False)
        self._writer = None

    def ended_before(self) -> bool:
        """Whether a process that was killed since has brought this source to its end; then says so again."""
        left_over = _peek(self._path)
        if left_over is None or not left_over.ended:
            return False
        self._report(SourceEnded(left_over.index))
        return True

    def tick(self) -> None:
        """Call several times a second, whatever the source is doing: reports progress."""
        self._progress.tick(self._now_ns(), self._writer, self._capturing)

    # --- the end ---------------------------------------------------------------------------------------

    def __enter__(self) -> Track:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, DriverHangs):
            self._abandon()
        self.close()

    def close(self) -> None:
        """Remove the ring of a source that has not ended; its readers are told. Idempotent."""
        if self._writer is not None:
            self._writer.close(unlink=True)
            self._writer = None

    def _abandon(self) -> None:
        """Leave the ring as a killed process would: a hung driver may still write into it."""
        if self._writer is not None:
            _ABANDONED.append(self._writer)
            self._writer = None


@dataclass(frozen=True)
class _Clock:
    """Where the clock of a ring stands: frame ``index``, the next one, was due at ``t_ns``.

    ``ended``: its writer has closed it and let it lie, so the source was at its end.
    """

    spec: AudioSpec
    index: int
    t_ns: int
    ended: bool = False


def _peek(path: Path) -> _Clock | None:
    """The clock of a left-over ring. None: there is none, or none that can be read, and it is replaced."""
    try:
        reader = RingReader.attach(path)
    except RingError:
        return None
    with reader:
        index = reader.write_index
        written = reader.time_ns(0) != 0  # else no frame was ever captured, and no time is known
        t_ns = reader.time_ns(index) if written else time.monotonic_ns()
        return _Clock(reader.spec, index, t_ns, reader.writer is WriterState.CLOSED)


def _rescaled(index: int, old: AudioSpec, new: AudioSpec) -> int:
    return -(-index * new.rate_hz // old.rate_hz)
