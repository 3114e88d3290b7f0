"""Recordings to text through the daemon's own pipeline, in one process: file source → ring → pipeline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cosyd.asr.hotwords import parse_hotwords
from cosyd.config.schema import Config, SourceConfig
from cosyd.errors import AudioError
from cosyd.publish.messages import AsrFinal, Message
from cosyd.ring import remove_ring
from cosyd.runtime.assembly import open_recognition
from cosyd.runtime.collector import Collector
from cosyd.runtime.hotword_lists import with_hotwords
from cosyd.runtime.ipc import CheckHotwords
from cosyd.runtime.pipeline import Pipeline
from cosyd.runtime.private_ring import private_ring
from cosyd.types import CaptureEvent, Checkpoint, DeviceOpened

SOURCE = "file"
TURN_S = 0.1

OnFinal = Callable[[Path, AsrFinal], None]
OnProgress = Callable[[Path, float], None]  # file, seconds of it that have been read


def transcribe(
    files: Iterable[str | Path],
    config: Config,
    *,
    realtime: bool = False,
    on_final: OnFinal,
    on_progress: OnProgress | None = None,
) -> list[AudioError]:
    """Transcribe files one after the other; ``on_final`` gets each final as it comes.

    Returns the errors of the files that could not be read, in their order; the others are transcribed all
    the same. Raises ModelError, GpuError.
    """
    failures = []
    with _transcriber(_finals_only(with_hotwords(config))) as transcriber:
        for file in files:
            try:
                transcriber.run(Path(file), realtime, on_final, on_progress)
            except AudioError as error:
                failures.append(error)
    return failures


def _finals_only(config: Config) -> Config:
    """Nobody sees partials, and they cost more than everything else together; nor the level. A second pass
    has all the time."""
    asr = config.asr.model_copy(update={"partial_ms": 0, "second_pass_ms": None})
    publish = config.publish.model_copy(update={"level_ms": 0})
    return config.model_copy(update={"asr": asr, "publish": publish})


@contextmanager
def _transcriber(config: Config) -> Any:
    transcriber = _Transcriber(config)
    with open_recognition(config, transcriber.collector.receive) as (pipeline, _):
        transcriber.pipeline = pipeline
        pipeline.check_hotwords(CheckHotwords(0, parse_hotwords(config.asr.hotwords)[0]))
        yield transcriber


class _Transcriber:
    """Plays one file at a time into a pipeline and collects what comes out."""

    pipeline: Pipeline

    def __init__(self, config: Config) -> None:
        self.collector = Collector(config.asr.model, (AsrFinal,), self._collected)
        self._file = Path()
        self._on_final: OnFinal | None = None

    def run(self, file: Path, realtime: bool, on_final: OnFinal, on_progress: OnProgress | None) -> None:
        source = SourceConfig(name=SOURCE, type="file", path=str(file), realtime=realtime)
        self._file, self._on_final = file, on_final
        self.collector.live = realtime
        record = self.collector.add(source)
        with Player(source) as player:
            opened = player.opened()
            checkpoint = Checkpoint(sample=opened.sample, utt=record.checkpoint.utt)
            self.pipeline.add_source(source, player.ring_path, checkpoint, muted=False)
            self.pipeline.turn(TURN_S)  # attaches to the ring, which holds from now on what the player writes
            player.go()
            while not self.collector.drained:  # also after an error: it closes the ring
                self.pipeline.turn(TURN_S)
                if on_progress:
                    on_progress(file, self.pipeline.progress().sources[SOURCE].audio_s)
            self.pipeline.remove_source(SOURCE)

    def _collected(self, message: Message) -> None:
        if self._on_final and isinstance(message, AsrFinal):
            self._on_final(self._file, message)


class Player:
    """A file source that runs on a thread of this process. Its error is raised when the player closes.

    Once opened, it waits for ``go``: an error takes the ring from its path, so a reader must have it before.
    """

    def __init__(self, source: SourceConfig) -> None:
        self.ring_path = private_ring("transcribe")
        self._source = source
        self._stop = threading.Event()
        self._first = threading.Event()
        self._go = threading.Event()
        self._opened: DeviceOpened | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="player")

    def opened(self) -> DeviceOpened:
        """Wait until the file is open. Raises AudioError when it cannot be."""
        self._first.wait()
        if self._error:
            raise self._error
        assert self._opened is not None
        return self._opened

    def go(self) -> None:
        """The ring is being read: play."""
        self._go.set()

    def __enter__(self) -> Player:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._stop.set()
        self._go.set()
        self._thread.join()
        remove_ring(self.ring_path)
        if self._error and kind is None:
            raise self._error

    def _run(self) -> None:
        from cosyd.capture import Capture

        try:
            Capture(self._source, self.ring_path, fresh=True).run(self._stop, self._report)
        except BaseException as error:  # noqa: BLE001  (handed to the thread that waits, whatever it is)
            self._error = error
        finally:
            self._first.set()

    def _report(self, event: CaptureEvent) -> None:
        if isinstance(event, DeviceOpened):
            self._opened = event
            self._first.set()
            self._go.wait()
