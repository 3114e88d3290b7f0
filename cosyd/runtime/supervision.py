"""Keeping one worker alive: start, watch, restart. Works on the daemon's event loop.

A worker is *starting* until its ``Ready``, then *running*. It *hangs* when it neither reports progress nor
finishes a decode in time; then it is killed, and systemd gets no pings until its successor is ready: if
that cannot be, systemd restarts the whole service.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cosyd.runtime.backoff import Backoff
from cosyd.runtime.ipc import Failed, FromWorker, Ready, RecognitionProgress, ToWorker
from cosyd.runtime.worker import WorkerProcess
from cosyd.types import CaptureProgress

log = logging.getLogger("cosyd.runtime")


@dataclass(frozen=True)
class Patience:
    """How long a worker may take, in seconds of the monotonic clock."""

    start_s: float = 60.0  # from its start to Ready: a slow card loading large models
    progress_s: float = 5.0  # between two reports of progress; they come five times a second
    decode_s: float = 10.0  # for one inference: the longest utterance on the slowest box takes about 3 s
    stop_s: float = 5.0  # from Stop to its end: one last decode

    @classmethod
    def for_watchdog(cls, watchdog_s: float | None) -> Patience:
        """A hang must be noticed well before systemd's own watchdog fires."""
        if watchdog_s is None:
            return cls()
        return cls(progress_s=min(cls.progress_s, max(0.5, watchdog_s / 2)))


class WorkerState(str, Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # it died; the next start is due after a pause
    FAILED = "failed"  # it said that trying again is useless


@dataclass(frozen=True)
class WorkerStatistics:
    """A snapshot for `status` and metrics."""

    name: str
    state: str
    pid: int | None
    restarts: int
    crash_loop: bool
    last_error: str


class SupervisedWorker:
    """A worker that is started again when it dies or hangs.

    ``arguments()`` is asked at each start, so that a successor is given what is true then (checkpoints).
    ``on_message`` sees every message. ``on_state`` is told of every change of state.
    """

    def __init__(
        self,
        name: str,
        target: Callable[..., None],
        arguments: Callable[[], tuple[Any, ...]],
        on_message: Callable[[FromWorker], None],
        on_state: Callable[[WorkerState], None],
        patience: Patience,
    ) -> None:
        self.name = name
        self.state = WorkerState.STOPPED
        self.failure: Failed | None = None
        self.hung = False
        self._replaced = ""  # why we ended it ourselves
        self._target = target
        self._arguments = arguments
        self._on_message = on_message
        self._on_state = on_state
        self._patience = patience
        self._backoff = Backoff()
        self._process: WorkerProcess | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._progressed_at = 0.0
        self._busy_s = 0.0
        self._slow_s = 0.0  # what its recogniser may take, where that is longer than usual
        self._restarts = 0
        self._last_error = ""

    def start(self) -> None:
        """Start it, unless it runs."""
        self._restart = None
        if self._process is not None:
            return
        now = time.monotonic()
        self._backoff.started(now)
        self._progressed_at, self._busy_s = now, 0.0
        self.failure = None
        self._process = WorkerProcess(
            self.name, self._target, self._arguments(), self._received, self._exited
        )
        self._process.start()
        self._enter(WorkerState.STARTING)

    async def stop(self) -> None:
        """End it for good; ``start`` may follow."""
        if self._restart:
            self._restart.cancel()
            self._restart = None
        process, self._process = self._process, None
        self._enter(WorkerState.STOPPED)
        if process:
            await process.stop(self._patience.stop_s)

    def send(self, message: ToWorker) -> None:
        if self._process:
            self._process.send(message)

    def check(self) -> None:
        """Kill it if it hangs. To be called several times a second."""
        complaint = self._complaint()
        if complaint and self._process:
            log.error("%s hangs (%s), killing it", self.name, complaint)
            self._last_error = f"hung: {complaint}"
            self.hung = True
            self._process.kill()

    def renew(self, reason: str) -> None:
        """Replace it: its successor is given what is true now, as that of one that died."""
        if self._process and self.state is WorkerState.RUNNING:
            log.warning("%s is replaced: %s", self.name, reason)
            self._replaced = reason
            self._process.kill()

    @property
    def healthy(self) -> bool:
        """Whether it progresses, or is on its way after a death that was not a hang."""
        return not self.hung and not self._complaint()

    def statistics(self) -> WorkerStatistics:
        return WorkerStatistics(
            self.name,
            self.state.value,
            self._process.pid if self._process else None,
            self._restarts,
            self._backoff.looping,
            self._last_error,
        )

    def _complaint(self) -> str:
        silent_s = time.monotonic() - self._progressed_at
        if self.state is WorkerState.STARTING and silent_s > self._patience.start_s:
            return f"not ready after {silent_s:.0f} s"
        if self.state is WorkerState.RUNNING and silent_s > self._patience.progress_s:
            return f"no progress for {silent_s:.1f} s"
        if self.state is WorkerState.RUNNING and self._busy_s > max(self._patience.decode_s, self._slow_s):
            return f"one inference takes {self._busy_s:.1f} s"
        return ""

    def _received(self, message: FromWorker) -> None:
        self._progressed_at = time.monotonic()
        if isinstance(message, Ready):
            self.hung = False
            self._enter(WorkerState.RUNNING)
        elif isinstance(message, Failed):
            self.failure = message
        elif isinstance(message, RecognitionProgress):
            self._busy_s, self._slow_s = message.busy_s, message.patience_s
        elif isinstance(message, CaptureProgress):
            self._busy_s = 0.0
        self._on_message(message)

    def _exited(self, code: int) -> None:
        if self._process is None:  # we stopped it
            return
        self._process = None
        if self.failure:
            self._last_error = self.failure.message
            self._enter(WorkerState.FAILED)
            return
        pause = 0.0
        if self._replaced:
            self._last_error, self._replaced = f"replaced: {self._replaced}", ""
        else:
            if not self.hung:
                self._last_error = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
            pause = self._backoff.died(time.monotonic())
            log.error("%s died (%s), starting it again in %.0f s", self.name, self._last_error, pause)
        self._restarts += 1
        self._enter(WorkerState.WAITING)
        self._restart = asyncio.get_running_loop().call_later(pause, self.start)

    def _enter(self, state: WorkerState) -> None:
        if state is not self.state:
            self.state = state
            self._on_state(state)
