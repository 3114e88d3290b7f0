"""Recordings as sources: read with soundfile."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.capture.negotiate import MAX_CHANNELS
from cosyd.capture.pacer import LEAD, Pacer
from cosyd.capture.pcm import encode, natural_format, silence_bad
from cosyd.capture.ratelimit import RateLimiter
from cosyd.capture.track import Track
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, UnsupportedFormat
from cosyd.ring import RingWriter
from cosyd.spec import FRAME, AudioSpec, SampleFormat

log = logging.getLogger(__name__)

PLAY_S = 0.4  # given to the ring at once in real time: few awakenings of Python; stops as soon
CHUNK_S = 0.5  # read at once when not in real time: what a reader takes at once, too


class Recording:
    """An open file that libsndfile reads, in the ring's format. A context manager."""

    def __init__(self, config: SourceConfig) -> None:
        self.path = _existing(config)
        self._file = _open(self.path)
        try:
            self.spec = self._spec(config)
        except AudioError:
            self.close()
            raise
        self.loop = config.loop
        self._float = natural_format(self._file.subtype) is SampleFormat.F32
        self._bad = RateLimiter()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        self._file.close()

    @property
    def frames(self) -> int:
        return int(self._file.frames)

    def _spec(self, config: SourceConfig) -> AudioSpec:
        channels, rate_hz = self._file.channels, self._file.samplerate
        if self._file.frames == 0:
            raise AudioError(f"{self.path} holds no audio")
        if config.rate_hz not in (None, rate_hz):
            raise UnsupportedFormat(f"{self.path} has {rate_hz} Hz, not {config.rate_hz}; leave rate_hz out")
        if config.channels is not None and config.channels > channels:
            raise UnsupportedFormat(f"{self.path} has {channels} channels, not {config.channels}")
        auto = config.format == "auto"
        sample_format = natural_format(self._file.subtype) if auto else SampleFormat(config.format)
        return AudioSpec(rate_hz, config.channels or min(channels, MAX_CHANNELS), sample_format)

    def seek(self, frame: int) -> None:
        """To where a player that has played ``frame`` frames is: past the end, a loop starts over."""
        target = frame % self.frames if self.loop else min(frame, self.frames)
        if not self._file.subtype.startswith("MPEG"):
            self._file.seek(target)
            return
        self._file.seek(0)  # into the middle of MP3, libsndfile seeks to silence or beside the frame
        while target > 0 and (got := len(self._decode(min(target, self.spec.rate_hz)))):
            target -= got

    def read(self, frames: int) -> NDArray[Any]:
        """The next frames, at most ``frames``; none at the end."""
        samples = self._decode(frames)
        if len(samples) == 0 and self.loop:
            self._file.seek(0)
            samples = self._decode(frames)
        return encode(samples[:, : self.spec.channels], self.spec.format)

    def _decode(self, frames: int) -> NDArray[Any]:
        import soundfile

        dtype = "float32" if self._float else "int32"
        try:
            samples = self._file.read(frames, dtype=dtype, always_2d=True)
        except soundfile.LibsndfileError as error:
            raise AudioError(f"{self.path} is damaged at frame {self._file.tell()}: {error}") from error
        return self._cleaned(samples) if self._float else samples

    def _cleaned(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        samples, bad = silence_bad(samples)
        if due := self._bad.add(bad):
            log.warning("%s: %d samples were no numbers and became silence", self.path, due)
        return samples


class FileSource:
    """Plays a recording into the ring. ``run`` returns when all of it is there, or ``stop`` is set."""

    def __init__(self, config: SourceConfig, track: Track, stop: threading.Event) -> None:
        self._config = config
        self._track = track
        self._stop = stop

    def run(self) -> None:
        with Recording(self._config) as recording:
            ring = self._track.prepare(recording.spec)
            # Frame 0 of the file: a killed process's ring goes on where it was, a new clock starts here.
            first = 0 if ring.adopted else ring.write_index
            start_ns = self._resume(ring, recording, first)
            if self._config.realtime:
                self._play(ring, recording, first, start_ns)
            else:
                self._pour(ring, recording, Pacer(ring, self._stop, self._track.tick))
            if not self._stop.is_set():
                self._track.ended()

    def _resume(self, ring: RingWriter, recording: Recording, first: int) -> int:
        """In real time as a microphone would, the clock having run on; else with the very next frame.

        Returns the time (CLOCK_MONOTONIC, ns) at which the next frame is due.
        """
        if self._config.realtime:
            left = None if recording.loop else max(0, first + recording.frames - ring.write_index)
            self._track.catch_up(at_most=left)
        else:
            self._track.resume_exactly()
        start_ns = time.monotonic_ns()
        recording.seek(ring.write_index - first)
        self._track.opened(str(recording.path))
        return start_ns

    def _play(self, ring: RingWriter, recording: Recording, first: int, start_ns: int) -> None:
        """By an absolute schedule: the time of each frame follows from its number, so nothing adds up."""
        rate_hz = recording.spec.rate_hz
        block = recording.spec.frames(FRAME.block_ms / 1000)  # nobody does anything with less
        start_index = ring.write_index
        while not self._stop.is_set() and len(samples := recording.read(recording.spec.frames(PLAY_S))):
            begin_ns = start_ns + (ring.write_index - start_index) * 1_000_000_000 // rate_hz
            late_s = (time.monotonic_ns() - begin_ns) * 1e-9
            ring.play(samples, block, begin_ns)
            self._track.tick()
            if (
                late_s > self._config.buffer_s / LEAD
            ):  # the process was stopped: catching up would lap readers
                self._leap(ring, recording, int(late_s * rate_hz), first)

    def _leap(self, ring: RingWriter, recording: Recording, frames: int, first: int) -> None:
        """What a microphone would have lost meanwhile is lost."""
        if not recording.loop:
            frames = min(frames, first + recording.frames - ring.write_index)
        if frames <= 0:
            return
        log.warning("%s: %d frames late, leaving them out", recording.path, frames)
        ring.count_overrun(frames)
        self._track.skip(frames)
        recording.seek(ring.write_index - first)

    def _pour(self, ring: RingWriter, recording: Recording, pacer: Pacer) -> None:
        chunk = min(pacer.max_frames, recording.spec.frames(CHUNK_S))
        while len(samples := recording.read(chunk)) and pacer.wait_for_room(len(samples)):
            ring.write(samples)
            self._track.tick()


def _existing(config: SourceConfig) -> Path:
    if config.path is None:
        raise AudioError(f"source {config.name!r} is a file, but has no path")
    path = Path(config.path)
    if not path.is_file():
        raise AudioError(f"source {config.name!r}: there is no file {path}")
    return path


def _open(path: Path) -> Any:
    import soundfile

    class Sequential(soundfile.SoundFile):  # type: ignore[misc]
        """soundfile seeks to where it is after each read if it can; in MP3 that breaks the next read."""

        def seekable(self) -> bool:
            return False

    try:
        return Sequential(path)
    except soundfile.LibsndfileError as error:
        raise AudioError(f"{path} cannot be read as audio: {error}") from error
