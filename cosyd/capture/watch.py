"""Keeping a device open: opens it, sees when it dies, silently or not, and opens it again.

Field cases 1 (a device that is unplugged often just stops calling back) and 2 (it comes back under another
number). The audio itself never passes here: the library's callback writes the ring.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from cosyd.capture.bounded import LOOK_S, DriverHangs, call_bounded
from cosyd.capture.device import AudioSystem, DeviceInfo, DeviceStream
from cosyd.capture.negotiate import negotiate
from cosyd.capture.resolve import find_again, find_device
from cosyd.capture.track import Track
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, UnsupportedFormat
from cosyd.spec import AudioSpec

log = logging.getLogger(__name__)

T = TypeVar("T")

# Opening takes ~0.1 s for a sound card and up to some seconds for a Bluetooth one or a sound server.
OPEN_TIMEOUT_S = 10.0
# Between looks at a device that delivers: each wakes Python up, and of the second in which a loss is to be
# noticed stale_ms are 800 by default, and one look may just miss the last block.
CALM_LOOK_S = 0.09
# Before its first block a device may take longer than stale_ms: sound servers and Bluetooth take 1 to 2 s.
FIRST_BLOCK_S = 3.0
CLOSE_TIMEOUT_S = 1.5  # closing waits for a block or two
STOP_TIMEOUT_S = 1.5  # for all that is left to do after ``stop``: a clean shutdown takes no longer than 2 s


class DeviceWatch:
    """One device source. ``run`` returns when ``stop`` is set.

    Raises UnsupportedFormat if the device has never been opened and takes nothing that the configuration
    allows, and DriverHangs if only a new process can help. All else is reported and tried again.
    """

    def __init__(
        self,
        config: SourceConfig,
        make_system: Callable[[], AudioSystem],
        track: Track,
        stop: threading.Event,
    ) -> None:
        self._config = config
        self._make_system = make_system
        self._made: AudioSystem | None = None
        self._track = track
        self._stop = stop
        self._last: DeviceInfo | None = None  # the device that was open last
        self._failure = ""  # why it is not open now, as reported
        self._stopping_until = math.inf
        self._hangs = False  # a call has not come back: nothing more is asked of the library

    def run(self) -> None:
        try:
            self._made = self._bounded(self._make_system, OPEN_TIMEOUT_S, "loading the audio library")
            while not self._stop.is_set():
                self._attempt()
        finally:
            if self._made is not None and not self._hangs:
                self._close(self._made.close, "the audio library")

    @property
    def _system(self) -> AudioSystem:
        if self._made is None:
            raise AudioError("the audio library is not loaded")
        return self._made

    def _attempt(self) -> None:
        """One opening and, if it succeeds, all of the time that the device stays open."""
        try:
            stream, device = self._open()
        except DriverHangs:
            raise
        except UnsupportedFormat as error:
            if self._last is None:
                raise
            self._away(str(error))
        except AudioError as error:
            self._away(str(error))
        else:
            self._last = device
            reason = self._while_open(stream, device)
            if reason:
                self._away(reason)

    # --- opening ---------------------------------------------------------------------------------------

    def _open(self) -> tuple[DeviceStream, DeviceInfo]:
        device, spec = self._bounded(self._choose, OPEN_TIMEOUT_S, "looking for devices")
        ring = self._track.prepare(spec)
        block = max(1, spec.rate_hz * self._config.block_ms // 1000)
        stream = self._bounded(
            lambda: self._system.open(device, spec, block, ring), OPEN_TIMEOUT_S, f"opening {device.name!r}"
        )
        self._track.arm()
        try:
            self._bounded(stream.start, OPEN_TIMEOUT_S, f"starting {device.name!r}")
        except DriverHangs:
            raise
        except AudioError:
            self._close(stream.close, repr(device.name))
            raise
        return stream, device

    def _choose(self) -> tuple[DeviceInfo, AudioSpec]:
        self._system.refresh()
        devices, wanted = self._system.devices(), self._config.device
        device = (
            find_device(devices, wanted) if self._last is None else find_again(devices, wanted, self._last)
        )
        spec = negotiate(device, self._config, self._system.supports)
        if self._config.rate_hz not in (None, spec.rate_hz):
            log.warning("%r does not take %s Hz, opening it at %s", device.name, self._config.rate_hz, spec)
        return device, spec

    # --- watching --------------------------------------------------------------------------------------

    def _while_open(self, stream: DeviceStream, device: DeviceInfo) -> str:
        """Returns why the device was lost, or "" if ``stop`` was set. The stream is closed then.

        Whatever happens: a callback must not outlive the ring.
        """
        try:
            reason = self._watch(stream, device)
            if reason:
                self._report_lost(reason)  # before closing, which may take its time
        finally:
            self._close(stream.close, repr(device.name))
        return reason

    def _watch(self, stream: DeviceStream, device: DeviceInfo) -> str:
        newest, since = None, time.monotonic()
        while not self._stop.wait(CALM_LOOK_S if self._track.capturing else LOOK_S):
            self._track.tick()
            now = time.monotonic()
            if self._track.resume_at is not None and self._track.index != newest:
                newest, since = self._track.index, now
                self._delivers(device)
            elif now - since >= self._patience_s():
                return f"{device.name!r} has delivered nothing for {round(self._patience_s() * 1000)} ms"
            elif not stream.active:
                return f"{device.name!r} has stopped; is it unplugged?"
        return ""

    def _patience_s(self) -> float:
        stale_s = self._config.stale_ms / 1000
        return stale_s if self._track.capturing else max(stale_s, FIRST_BLOCK_S)

    def _delivers(self, device: DeviceInfo) -> None:
        if not self._track.capturing:
            self._failure = ""
            self._track.opened(device.name)

    # --- being away ------------------------------------------------------------------------------------

    def _away(self, reason: str) -> None:
        """Report and wait before the next attempt."""
        self._report_lost(reason)
        until = time.monotonic() + self._config.reopen_ms / 1000
        while (left := until - time.monotonic()) > 0 and not self._stop.wait(min(LOOK_S, left)):
            self._track.tick()

    def _report_lost(self, reason: str) -> None:
        """Unless it is already known, and for the same reason."""
        if self._track.capturing or reason != self._failure:
            self._failure = reason
            self._track.lost(reason)

    # --- calls into the driver -------------------------------------------------------------------------

    def _close(self, close: Callable[[], None], what: str) -> None:
        """Reports nothing meanwhile, since it may be a report that failed."""
        self._bounded(close, CLOSE_TIMEOUT_S, f"closing {what}", waiting=lambda: None)

    def _bounded(
        self,
        work: Callable[[], T],
        timeout_s: float,
        what: str,
        waiting: Callable[[], None] | None = None,
    ) -> T:
        limit = time.monotonic() + timeout_s
        try:
            return call_bounded(
                work, what, lambda: min(limit, self._stop_limit()), waiting or self._track.tick
            )
        except DriverHangs:
            self._hangs = True
            if self._made is not None:
                self._made.abandon()
            raise

    def _stop_limit(self) -> float:
        """When everything has to be over, once ``stop`` is set."""
        if self._stop.is_set() and self._stopping_until == math.inf:
            self._stopping_until = time.monotonic() + STOP_TIMEOUT_S
        return self._stopping_until
