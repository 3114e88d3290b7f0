"""The process that owns the models: turns a ``Pipeline`` and passes its events to the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from cosyd.config.schema import Config
from cosyd.errors import CosydError
from cosyd.runtime.ipc import (
    AddSource,
    CheckHotwords,
    Failed,
    FromWorker,
    Heard,
    Ready,
    RecognitionProgress,
    Reconfigure,
    RemoveSource,
    SetMuted,
    SourceClosing,
    SourceLost,
    ToWorker,
)
from cosyd.runtime.logs import set_up_logs
from cosyd.runtime.worker import Inbox
from cosyd.types import Backend

if TYPE_CHECKING:
    from cosyd.runtime.pipeline import Pipeline

TURN_S = (
    0.15  # longest wait of one turn, more than a look takes in silence: commands are looked at this often
)
PROGRESS_S = 0.2  # pause between reports of progress


class Outbox:
    """What is sent to the daemon, which each message wakes up.

    So levels, which come several times a second and are the first thing that silence consists of, wait for
    the end of the turn and go together with a report of progress.
    """

    def __init__(self, send: Callable[[FromWorker | tuple[FromWorker, ...]], None]) -> None:
        self._send = send
        self._levels: list[FromWorker] = []  # of one turn: a few of each source

    @property
    def waiting(self) -> bool:
        return bool(self._levels)

    def emit(self, message: FromWorker) -> None:
        if isinstance(message, Heard):
            self._levels.append(message)
        else:
            self._send(message)

    def flush(self, *more: FromWorker) -> None:
        """Send what waits and these, as one."""
        if self._levels or more:
            self._send((*self._levels, *more))
            self._levels.clear()


def main(connection: Connection, config: Config, sources: tuple[AddSource, ...]) -> None:
    """Entry of the process."""
    set_up_logs(config.log.level)
    inbox = Inbox(connection)
    inbox.start()
    try:
        _recognise(Outbox(connection.send), config, sources, inbox)
    except CosydError as error:
        connection.send(Failed(str(error), error.exit_code))
    except ConnectionError:  # the daemon is gone: nobody is left to tell
        return


def _recognise(outbox: Outbox, config: Config, sources: tuple[AddSource, ...], inbox: Inbox) -> None:
    # Here, not above: the daemon imports this file for ``main`` alone.
    from cosyd.runtime.assembly import open_recognition

    with ExitStack() as stack:
        stack.callback(outbox.flush)  # the last, after what closing the pipeline gives
        pipeline, backends = stack.enter_context(open_recognition(config, outbox.emit))
        for source in sources:
            _obey(pipeline, source)
        outbox.emit(Ready(backends()))
        report_at = 0.0
        while not inbox.stopping.is_set():
            for command in inbox.take():
                _obey(pipeline, command)
            pipeline.turn(TURN_S)
            # Sooner where a level goes anyway: the daemon wakes up once for both.
            if time.monotonic() >= report_at - outbox.waiting * PROGRESS_S / 2:
                outbox.flush(_with_recogniser(pipeline.progress(), backends()))
                report_at = time.monotonic() + PROGRESS_S
            else:
                outbox.flush()


def _with_recogniser(progress: RecognitionProgress, backends: dict[str, Backend]) -> RecognitionProgress:
    """What the recogniser runs on belongs to what each source's stages run on."""
    asr = {"asr": backends["asr"]}
    sources = {
        name: replace(source, backends={**source.backends, **asr}) if source.backends else source
        for name, source in progress.sources.items()
    }
    return replace(progress, sources=sources, backends=backends)


def _obey(pipeline: Pipeline, command: ToWorker) -> None:
    if isinstance(command, AddSource):
        pipeline.add_source(command.source, Path(command.ring_path), command.checkpoint, command.muted)
    elif isinstance(command, RemoveSource):
        pipeline.remove_source(command.name)
    elif isinstance(command, SetMuted):
        pipeline.set_muted(command.source, command.muted)
    elif isinstance(command, SourceClosing):
        pipeline.expect_close(command.source)
    elif isinstance(command, CheckHotwords):
        pipeline.check_hotwords(command)
    elif isinstance(command, SourceLost):
        pipeline.lose_source(command.source)
    elif isinstance(command, Reconfigure):
        pipeline.reconfigure(command.config)
