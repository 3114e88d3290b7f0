"""One source from its configuration to its ring."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from cosyd.capture.device import AudioSystem, DeviceInfo
from cosyd.capture.file import FileSource
from cosyd.capture.pipe import PipeSource
from cosyd.capture.priority import raise_priority
from cosyd.capture.progress import Report
from cosyd.capture.track import Track
from cosyd.capture.watch import DeviceWatch
from cosyd.config.schema import SourceConfig
from cosyd.ring import remove_ring

log = logging.getLogger(__name__)


class Capture:
    """Runs one source in this process.

    ``run`` writes the ring at ``ring_path`` until ``stop`` is set or the source has ended (a file or
    standard input is over). Whatever trying again may mend is reported and tried again; it raises
    ``AudioError`` for the rest:

    * a path or format that cannot work (UnsupportedFormat and plain AudioError);
    * ``bounded.DriverHangs``: a driver does not come back. The process must end without waiting for its
      threads (``os._exit``); the next one adopts the ring.

    ``stdin`` is the descriptor that a pipe source calls ``-``: a process that multiprocessing has spawned
    finds /dev/null at 0, and is given its parent's (a ``Connection`` around a copy of it can be sent along).

    What becomes of the ring:

    * ``stop`` or an error: it is removed.
    * The source has ended: it stays, marked closed, so that a reader that comes late, or again after a
      crash, finds the end of the audio. The caller removes it with ``remove_ring`` when nobody needs it.
    * The process is killed: it stays, and the next ``run`` goes on with it; if the source had ended, all that
      ``run`` does is to say so again.

    ``fresh``: whatever lies at the path is of another life of the daemon. A file or pipe then starts anew; a
    device goes on with its clock all the same, and nobody reads what was before its next opening.
    """

    def __init__(self, config: SourceConfig, ring_path: Path, *, stdin: int = 0, fresh: bool = False) -> None:
        self._config = config
        self._ring_path = ring_path
        self._stdin = stdin
        self._fresh = fresh

    def run(self, stop: threading.Event, report: Report) -> None:
        config = self._config
        is_device = config.type in ("portaudio", "pyaudio")
        with Track(self._ring_path, config.buffer_s, report, measure_drift=is_device) as track:
            if is_device:
                log.info("%s: capture runs with priority: %s", config.name, raise_priority())
                DeviceWatch(config, lambda: audio_system(config.type), track, stop).run()
            else:
                self._play(track, stop)

    def _play(self, track: Track, stop: threading.Event) -> None:
        if self._fresh and remove_ring(self._ring_path):
            log.info("%s: removed the ring of an earlier daemon", self._ring_path)
        if track.ended_before():
            return
        if self._config.type == "file":
            FileSource(self._config, track, stop).run()
        else:
            PipeSource(self._config, track, stop, self._stdin).run()


def audio_system(source_type: str = "portaudio") -> AudioSystem:
    """The library behind a type of source. Imports it."""
    if source_type == "pyaudio":
        from cosyd.capture.pyaudio_source import PyAudioSystem

        return PyAudioSystem()
    from cosyd.capture.portaudio import PortAudio

    return PortAudio()


def list_devices(source_type: str = "portaudio") -> list[DeviceInfo]:
    """The input devices there are now."""
    system = audio_system(source_type)
    try:
        system.refresh()
        return system.devices()
    finally:
        system.close()
