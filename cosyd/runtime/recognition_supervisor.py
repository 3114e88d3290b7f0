"""The daemon's side of recognition: the one worker that recognises all sources, and what follows from its
messages.

Its successor, if it dies, is given every source that was handed over and is not over, with its checkpoint.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any

from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.config.paths import ring_path
from cosyd.errors import ControlError
from cosyd.publish.messages import DAEMON
from cosyd.runtime import recognition_worker
from cosyd.runtime.board import SourceRecord
from cosyd.runtime.fleet_context import FleetContext
from cosyd.runtime.ipc import (
    AddSource,
    ChannelsJudged,
    CheckHotwords,
    CloseExpected,
    Drained,
    FromWorker,
    GapSeen,
    GpuReport,
    Heard,
    HotwordsChecked,
    Located,
    Notice,
    Ready,
    RecognitionProgress,
    Recognized,
    Removed,
    RemoveSource,
    Renew,
    SourceClosing,
    SourceLost,
    ToWorker,
)
from cosyd.runtime.renewals import Renewals
from cosyd.runtime.supervision import SupervisedWorker, WorkerState
from cosyd.types import DeviceOpened, Final, Partial

log = logging.getLogger("cosyd.runtime")

CHECK_S = 10.0  # a recogniser that is far behind still looks at its commands between two blocks
AVAILABLE_S = 10.0  # loading the models takes one to three seconds


class RecognitionSupervisor:
    """``on_ready``: the models are loaded, at each start."""

    def __init__(self, context: FleetContext, on_ready: Callable[[], None]) -> None:
        self._context = context
        self._board = context.board
        self._metrics = context.metrics
        self._on_ready = on_ready
        self._awaited: dict[FromWorker, asyncio.Event] = {}
        self._checked: dict[int, asyncio.Future[tuple[Rejected, ...]]] = {}  # answers that are waited for
        self._checks = 0
        self._renewals = Renewals()
        self.worker = SupervisedWorker(
            "recognition",
            recognition_worker.main,
            self._arguments,
            self._received,
            self._entered,
            context.patience,
        )

    @property
    def running(self) -> bool:
        return self.worker.state is WorkerState.RUNNING

    # --- sources ---

    def send(self, message: ToWorker) -> None:
        self.worker.send(message)

    def hand_over(self, record: SourceRecord, opened: DeviceOpened) -> None:
        """Have the source recognised from its first frame on; later openings are in its ring."""
        if record.handed_over:
            return
        record.handed_over = True
        record.checkpoint = dataclasses.replace(record.checkpoint, sample=opened.sample)
        self.send(self._add_source(record))

    def lose(self, record: SourceRecord) -> None:
        """Its device went away: what is open ends there."""
        self.send(SourceLost(record.name))

    async def available(self) -> None:
        """Wait while it is being started again: a source has to be closed by one who can publish the rest."""
        deadline = time.monotonic() + AVAILABLE_S
        while self.worker.state is WorkerState.STARTING and time.monotonic() < deadline:
            await asyncio.sleep(0.05)

    async def forget(self, name: str) -> None:
        """Have the recogniser publish what is open of the source, and forget it."""
        if self.worker.state not in (WorkerState.STARTING, WorkerState.RUNNING):
            return  # its successor will not be told of the source
        if not await self._ask(RemoveSource(name), Removed(name)):
            log.warning("%s: the recogniser did not let go of it in time", name)

    async def expect_close(self, name: str) -> None:
        """Tell the recogniser that we close the source, and wait until it knows."""
        if self.running:
            await self._ask(SourceClosing(name), CloseExpected(name))

    async def _ask(self, question: ToWorker, answer: FromWorker) -> bool:
        """Send a command and wait for its answer; False: none came within the patience for a stop."""
        answered = self._awaited[answer] = asyncio.Event()
        self.send(question)
        try:
            await asyncio.wait_for(answered.wait(), self._context.patience.stop_s)
        except asyncio.TimeoutError:
            return False
        finally:
            del self._awaited[answer]
        return True

    async def check_hotwords(self, hotwords: tuple[Hotword, ...]) -> tuple[Rejected, ...]:
        """Ask the recogniser which of these would have no effect. Raises ControlError without an answer."""
        await self.available()
        if not self.running:
            raise ControlError("the recogniser is not running; try again when it is back")
        self._checks += 1
        number = self._checks
        answer = self._checked[number] = asyncio.get_running_loop().create_future()
        self.send(CheckHotwords(number, hotwords))
        try:
            return await asyncio.wait_for(answer, CHECK_S)
        except asyncio.TimeoutError:
            raise ControlError(f"the recogniser did not answer within {CHECK_S:.0f} s; try again") from None
        finally:
            del self._checked[number]

    def _arguments(self) -> tuple[Any, ...]:
        records = self._board.records.values()
        sources = tuple(self._add_source(r) for r in records if r.handed_over and not r.drained)
        return self._context.config, sources

    def _add_source(self, record: SourceRecord) -> AddSource:
        ring = str(ring_path(self._context.paths, record.name))
        return AddSource(record.config, ring, record.checkpoint, record.muted)

    # --- states ---

    def _entered(self, state: WorkerState) -> None:
        self._metrics.worker(self.worker.statistics())
        if state is WorkerState.WAITING:
            self._board.worker_died(DAEMON, self.worker.statistics())
            for record in self._board.records.values():
                self._board.recogniser_died(record)
        elif state is WorkerState.FAILED and self.worker.failure:
            self._context.on_fatal(self.worker.failure)

    # --- messages ---

    def _received(self, message: FromWorker) -> None:
        if isinstance(message, Ready):
            self._ready(message)
        elif isinstance(message, RecognitionProgress):
            self._progressed(message)
        elif isinstance(message, GpuReport):
            self._metrics.gpu(message.usage)
        elif isinstance(message, Renew):
            pid = self.worker.statistics().pid
            wait_s = self._renewals.due_in(time.monotonic())
            log.info("the recogniser is to be replaced in %.0f s: %s", wait_s, message.reason)
            asyncio.get_running_loop().call_later(wait_s, self._renew, pid, message.reason)
        elif isinstance(message, Notice):
            health = message.health
            self._board.health(message.source, health.code, health.severity, health.message, **health.details)
        elif isinstance(message, HotwordsChecked):
            answer = self._checked.get(message.number)
            if answer is not None and not answer.done():
                answer.set_result(message.rejected)
        elif isinstance(message, Removed | CloseExpected):
            if message in self._awaited:
                self._awaited[message].set()
        elif isinstance(message, Recognized | Heard | Located | ChannelsJudged | GapSeen | Drained):
            self._about_source(message)

    def _renew(self, pid: int | None, reason: str) -> None:
        """Unless another is there by now."""
        if self.running and pid == self.worker.statistics().pid:
            self._renewals.done(time.monotonic())
            self.worker.renew(reason)

    def _about_source(
        self, message: Recognized | Heard | Located | ChannelsJudged | GapSeen | Drained
    ) -> None:
        record = self._board.records.get(message.source)
        if record is None:  # removed meanwhile
            return
        if isinstance(message, Recognized):
            self._recognised(record, message)
        elif isinstance(message, Heard):
            self._board.heard(message)
        elif isinstance(message, Located):
            self._board.located(message)
        elif isinstance(message, ChannelsJudged):
            self._board.judged(record, message)
        elif isinstance(message, GapSeen):
            self._board.saw_gap(record, message)
        else:  # perhaps its ring was closed only to make room for one of another format
            record.consumed = True
            self._board.settle_end(record)

    def _recognised(self, record: SourceRecord, message: Recognized) -> None:
        latency_s = self._board.recognised(record, message)
        if latency_s is not None and isinstance(message.event, Partial | Final):
            kind = "final" if isinstance(message.event, Final) else "partial"
            self._metrics.published(record.name, kind, latency_s)

    def _ready(self, ready: Ready) -> None:
        self._board.backends = ready.backends
        self._on_ready()
        for record in self._board.records.values():
            self._board.recogniser_is_back(record)
            if record.status == "lost":  # its predecessor may have been told, it was not
                self.lose(record)

    def _progressed(self, progress: RecognitionProgress) -> None:
        self._metrics.recognised(progress)
        self._board.backends |= progress.backends
        for name, source in progress.sources.items():
            record = self._board.records.get(name)
            if record:
                record.checkpoint = source.checkpoint
                record.vad_prob = source.vad_prob
                record.behind_s = source.behind_s
                record.lost_frames = source.lost_frames
                self._board.runs_on(record, source.backends)
                self._metrics.runs_on(name, source.backends)
