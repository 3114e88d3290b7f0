"""What a source says of itself at least once a second: position, overruns, drift."""

from __future__ import annotations

import logging
from collections.abc import Callable

from cosyd.capture.drift import DriftEstimator
from cosyd.capture.ratelimit import RateLimiter
from cosyd.ring import RingWriter
from cosyd.types import CaptureEvent, CaptureProgress

log = logging.getLogger(__name__)

PROGRESS_NS = 500_000_000  # the contract is "at least once a second"
STAMP_NS = 1_000_000_000  # pause between stamps of the drift regression

Report = Callable[[CaptureEvent], None]


class Progress:
    """Reports a ring's counters and logs its overruns. Counters go on over a change of rings."""

    def __init__(self, name: str, report: Report, *, measure_drift: bool) -> None:
        self._name = name
        self._report = report
        self._drift = DriftEstimator(1) if measure_drift else None
        self._overruns = RateLimiter()
        self._logged = 0  # overruns that the limiter knows of
        self._stamped = 0  # overruns that the regression knows of
        self._before = (0, 0)  # overruns and lost frames of earlier rings
        self._next_report_ns = 0
        self._next_stamp_ns = 0

    def follow(self, ring: RingWriter) -> None:
        """From now on ``ring`` is ticked; what it has counted before (it was adopted) is known already."""
        self._logged = self._stamped = ring.statistics().overruns
        self.restart(ring)

    def leave(self, ring: RingWriter) -> None:
        """``ring`` is about to be replaced."""
        statistics = ring.statistics()
        overruns, lost = self._before
        self._before = (overruns + statistics.overruns, lost + statistics.overrun_frames)

    def restart(self, ring: RingWriter) -> None:
        """The clock was set: gaps are as long as the nominal rate says, so a regression must not span one."""
        if self._drift is not None:
            self._drift.reset(ring.spec.rate_hz)

    def tick(self, now_ns: int, ring: RingWriter | None, capturing: bool) -> None:
        """Call often; it does something when it is time."""
        if capturing and ring is not None and self._drift is not None and now_ns >= self._next_stamp_ns:
            self._next_stamp_ns = now_ns + STAMP_NS
            self._stamp(ring, self._drift)
        if now_ns >= self._next_report_ns:
            self._next_report_ns = now_ns + PROGRESS_NS
            self._tell(ring, capturing)

    def _stamp(self, ring: RingWriter, drift: DriftEstimator) -> None:
        """Index and time are two reads: take them only if no frame came between.

        What an overrun has lost is not in the index: a regression across it would show drift.
        """
        overruns = ring.statistics().overruns
        if overruns != self._stamped:
            self._stamped = overruns
            drift.reset()
        index, t_ns = ring.write_index, ring.last_write_ns
        if t_ns and index == ring.write_index:
            drift.add(index, t_ns)

    def _tell(self, ring: RingWriter | None, capturing: bool) -> None:
        sample = 0
        overruns, lost = self._before
        if ring is not None:
            statistics = ring.statistics()
            sample = statistics.write_index
            overruns += statistics.overruns
            lost += statistics.overrun_frames
            self._log_overruns(statistics.overruns)
        ppm = self._drift.ppm if capturing and self._drift is not None else None
        self._report(CaptureProgress(sample, capturing, overruns, lost, ppm))

    def _log_overruns(self, overruns: int) -> None:
        if due := self._overruns.add(overruns - self._logged):
            log.warning("%s: the device overran %d times (%d so far)", self._name, due, overruns)
        self._logged = overruns
