"""Raw PCM from a FIFO or standard input."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from cosyd.capture.pacer import Pacer
from cosyd.capture.track import Track
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, UnsupportedFormat
from cosyd.ring import RingWriter
from cosyd.spec import AudioSpec, SampleFormat

STDIN = "-"
POLL_S = 0.1  # pause between looks at ``stop``
READ_BYTES = 65_536  # what a Linux pipe holds


class PipeSource:
    """Copies a pipe into the ring, no faster than it is read there.

    Standard input ends the source when it is closed. A FIFO whose writer has closed it is reported as lost
    and waits for the next writer; the clock runs on meanwhile. A writer that pauses is no loss.
    """

    def __init__(self, config: SourceConfig, track: Track, stop: threading.Event, stdin: int) -> None:
        self._config = config
        self._track = track
        self._stop = stop
        self._stdin = stdin
        self._spec = _spec(config)
        self._rest = b""  # the beginning of a frame whose end has not come yet

    def run(self) -> None:
        ring = self._track.prepare(self._spec)
        pacer = Pacer(ring, self._stop, self._track.tick)
        if self._config.path == STDIN:
            self._copy(self._stdin, "standard input", ring, pacer)
            if not self._stop.is_set():
                self._track.ended()
            return
        path = _fifo(self._config)
        waiting_for = "a writer"
        while not self._stop.is_set():
            self._track.lost(f"waiting for {waiting_for} of {path}")
            with _opened(path) as descriptor:
                self._copy(descriptor, str(path), ring, pacer)
            waiting_for = "another writer"

    def _copy(self, descriptor: int, name: str, ring: RingWriter, pacer: Pacer) -> None:
        """From the first byte until the writer closes the pipe or ``stop`` is set."""
        self._rest = b""
        opened = False
        most = min(READ_BYTES, pacer.max_frames * self._spec.frame_bytes)
        while self._readable(descriptor):
            data = os.read(descriptor, most - len(self._rest))
            if not data:
                return
            if not opened:
                self._track.catch_up()
                self._track.opened(name)
                opened = True
            self._write(data, ring, pacer)

    def _write(self, data: bytes, ring: RingWriter, pacer: Pacer) -> None:
        data = self._rest + data
        whole = len(data) - len(data) % self._spec.frame_bytes
        self._rest = data[whole:]
        if whole and pacer.wait_for_room(whole // self._spec.frame_bytes):
            ring.write(data[:whole], time.monotonic_ns())

    def _readable(self, descriptor: int) -> bool:
        """Waits for data or the writer's end; False: ``stop`` was set."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not self._stop.is_set():
            self._track.tick()
            if poll.poll(POLL_S * 1000):
                return True
        return False


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Without waiting for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise AudioError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _spec(config: SourceConfig) -> AudioSpec:
    if config.rate_hz is None:
        raise UnsupportedFormat(f"source {config.name!r}: raw audio does not say its rate; set rate_hz")
    sample_format = SampleFormat.S16 if config.format == "auto" else SampleFormat(config.format)
    return AudioSpec(config.rate_hz, config.channels or 1, sample_format)


def _fifo(config: SourceConfig) -> Path:
    if config.path is None:
        raise AudioError(f"source {config.name!r} is a pipe, but has no path")
    path = Path(config.path)
    if not path.exists():
        raise AudioError(f"source {config.name!r}: there is no {path}; make it with mkfifo")
    if not stat.S_ISFIFO(path.stat().st_mode):
        raise AudioError(f"source {config.name!r}: {path} is not a FIFO; for recordings use type: file")
    return path
