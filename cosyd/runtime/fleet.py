"""The daemon's workers: one that recognises, one for each source that captures.

Capture workers are started at once but open their devices only when the models are ready, so that nothing
overruns while they load. A source is
handed to the recogniser when its device has been opened, with the sample at which that was.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cosyd.config.paths import Paths, ring_path
from cosyd.config.reload import Changes
from cosyd.config.schema import Config, SourceConfig
from cosyd.publish.messages import DAEMON
from cosyd.runtime import capture_worker, recognition_worker
from cosyd.runtime.board import Board, SourceRecord
from cosyd.runtime.ipc import (
    AddSource,
    Drained,
    Failed,
    FromWorker,
    GapSeen,
    Heard,
    Notice,
    Open,
    Ready,
    RecognitionProgress,
    Recognized,
    Reconfigure,
    Removed,
    RemoveSource,
    SetMuted,
    SourceClosing,
    SourceLost,
)
from cosyd.runtime.metrics import Metrics
from cosyd.runtime.supervision import Patience, SupervisedWorker, WorkerState
from cosyd.types import (
    CaptureProgress,
    Checkpoint,
    DeviceLost,
    DeviceOpened,
    Final,
    GapRecorded,
    Partial,
    SourceEnded,
)

log = logging.getLogger("cosyd.runtime")

CAPTURE_EVENTS = (DeviceOpened, DeviceLost, GapRecorded, SourceEnded, CaptureProgress)


class Fleet:
    """Starts, watches, changes and stops the workers. ``on_fatal`` is told of what no restart can mend."""

    def __init__(
        self,
        config: Config,
        paths: Paths,
        board: Board,
        metrics: Metrics,
        patience: Patience,
        on_fatal: Callable[[Failed], None],
    ) -> None:
        self._config = config
        self._paths = paths
        self._board = board
        self._metrics = metrics
        self._patience = patience
        self._on_fatal = on_fatal
        self._may_open = False
        self._removals: dict[str, asyncio.Event] = {}
        self.recognition = SupervisedWorker(
            "recognition",
            recognition_worker.main,
            self._recognition_arguments,
            self._from_recognition,
            self._recognition_state,
            patience,
        )

    # --- life ---

    def start(self) -> None:
        """Start the recogniser; the devices follow when it is ready."""
        self.recognition.start()
        for source in self._config.sources:
            self._start_capture(self._board.add(source))

    async def stop(self) -> None:
        """Close the devices, then recognise what is left, then end the recogniser."""
        for record in self._board.records.values():
            self.recognition.send(SourceClosing(record.name))
        await asyncio.gather(*(worker.stop() for worker in self._captures()))
        await self.recognition.stop()
        for record in self._board.records.values():
            self._board.enter(record, "stopped")

    def check(self) -> None:
        """Look for workers that hang. To be called several times a second."""
        for worker in self.workers():
            worker.check()

    def workers(self) -> Iterator[SupervisedWorker]:
        yield self.recognition
        yield from self._captures()

    @property
    def healthy(self) -> bool:
        return all(worker.healthy for worker in self.workers())

    @property
    def listening(self) -> bool:
        """Whether speech into at least one source would become text now."""
        return self.recognition.state is WorkerState.RUNNING and any(
            record.listening for record in self._board.records.values()
        )

    @property
    def drained(self) -> bool:
        """Whether every source has ended and is recognised to its end."""
        return all(record.drained for record in self._board.records.values())

    # --- changes ---

    async def apply(self, config: Config, changes: Changes) -> None:
        """Swap in a configuration whose restart-only keys are the old ones."""
        before = {source.name: source for source in self._config.sources}
        self._config = config
        after = {source.name: source for source in config.sources}
        for name in changes.removed:
            await self._remove(name)
        for name in changes.changed:
            await self._change(before[name], after[name])
        for name in changes.added:
            self._add(after[name], Checkpoint())
        self.recognition.send(Reconfigure(config))

    def mute(self, record: SourceRecord, muted: bool) -> None:
        self._board.mute(record, muted)
        self.recognition.send(SetMuted(record.name, muted))

    async def _change(self, old: SourceConfig, new: SourceConfig) -> None:
        if old.model_copy(update={"muted": new.muted}) == new:
            record = self._board.records[new.name]
            record.config = new
            self.mute(record, new.muted)
            return
        utt = self._board.records[new.name].checkpoint.utt
        await self._remove(new.name)
        self._add(new, Checkpoint(utt=utt))

    def _add(self, source: SourceConfig, checkpoint: Checkpoint) -> None:
        record = self._board.add(source)
        record.checkpoint = checkpoint
        self._start_capture(record)

    async def _remove(self, name: str) -> None:
        record = self._board.records[name]
        self.recognition.send(SourceClosing(name))
        if record.worker:
            await record.worker.stop()
        await self._forget_in_recognition(name)
        self._board.remove(record)
        self._metrics.forget(name)

    async def _forget_in_recognition(self, name: str) -> None:
        """Have the recogniser publish what is open of the source. One that does not run has nothing open."""
        if self.recognition.state is not WorkerState.RUNNING:
            return
        removed = self._removals[name] = asyncio.Event()
        self.recognition.send(RemoveSource(name))
        try:
            await asyncio.wait_for(removed.wait(), self._patience.stop_s)
        except asyncio.TimeoutError:
            log.warning("%s: the recogniser did not let go of it in time", name)
        del self._removals[name]

    # --- capture ---

    def _captures(self) -> list[SupervisedWorker]:
        return [record.worker for record in self._board.records.values() if record.worker]

    def _open_devices(self) -> None:
        self._may_open = True
        for worker in self._captures():
            worker.send(Open())

    def _start_capture(self, record: SourceRecord) -> None:
        def arguments() -> tuple[Any, ...]:
            return (
                record.config,
                self._ring(record),
                self._config.log.level,
                not self._may_open,
                not record.handed_over,  # nobody has read its ring: what there is, another daemon left
                capture_worker.standard_input(record.config),
            )

        record.worker = SupervisedWorker(
            f"capture {record.name}",
            capture_worker.main,
            arguments,
            lambda message: self._from_capture(record, message),
            lambda state: self._capture_state(record, state),
            self._patience,
        )
        record.worker.start()

    def _ring(self, record: SourceRecord) -> Path:
        return ring_path(self._paths, record.name)

    def _from_capture(self, record: SourceRecord, message: FromWorker) -> None:
        if not isinstance(message, CAPTURE_EVENTS):
            return
        self._board.captured(record, message)
        if isinstance(message, CaptureProgress):
            self._metrics.captured(record.name, message)
        elif isinstance(message, DeviceOpened):
            self._hand_over(record, message)
        elif isinstance(message, DeviceLost):
            self._metrics.up.labels(record.name).set(0)
            self.recognition.send(SourceLost(record.name, message.sample))
        elif isinstance(message, GapRecorded):
            self._metrics.gaps.labels(record.name).inc(message.frames)
        elif isinstance(message, SourceEnded):
            self._settle_end(record)

    def _settle_end(self, record: SourceRecord) -> None:
        """It is over when capture has said so and the recogniser is done with it; either may come first."""
        if not record.ended or (record.handed_over and not record.consumed):
            return
        if record.drained:  # said again by the successor of a killed worker
            self._board.enter(record, "ended")
        else:
            record.drained = True
            self._board.ended(record)

    def _hand_over(self, record: SourceRecord, opened: DeviceOpened) -> None:
        if record.handed_over:
            return
        record.handed_over = True
        record.checkpoint = dataclasses.replace(record.checkpoint, sample=opened.sample)
        self.recognition.send(self._add_source(record))

    def _capture_state(self, record: SourceRecord, state: WorkerState) -> None:
        self._board.worker_state(record, state)
        assert record.worker is not None
        self._metrics.worker(record.worker.statistics())
        if state is WorkerState.WAITING:
            self._report_death(record.worker, record.name)
        elif state is WorkerState.FAILED:
            self._give_up_if_alone(record.worker.failure)

    def _give_up_if_alone(self, failure: Failed | None) -> None:
        """A source that cannot be used ends the daemon only if no other is left."""
        statuses = {record.status for record in self._board.records.values()}
        if failure and statuses == {"failed"}:
            self._on_fatal(failure)

    # --- recognition ---

    def _recognition_arguments(self) -> tuple[Any, ...]:
        records = self._board.records.values()
        sources = tuple(self._add_source(r) for r in records if r.handed_over and not r.drained)
        return self._config, sources

    def _add_source(self, record: SourceRecord) -> AddSource:
        return AddSource(record.config, str(self._ring(record)), record.checkpoint, record.muted)

    def _recognition_state(self, state: WorkerState) -> None:
        self._metrics.worker(self.recognition.statistics())
        if state is WorkerState.WAITING:
            self._report_death(self.recognition, DAEMON)
            for record in self._board.records.values():
                self._board.recogniser_died(record)
        elif state is WorkerState.FAILED and self.recognition.failure:
            self._on_fatal(self.recognition.failure)

    def _report_death(self, worker: SupervisedWorker, source: str) -> None:
        statistics = worker.statistics()
        code, severity = ("crash_loop", "error") if statistics.crash_loop else ("worker_restarted", "warning")
        self._board.health(
            source,
            code,
            severity,
            f"{worker.name}: {statistics.last_error}; starting it again",
            worker=worker.name,
            restarts=statistics.restarts,
        )

    def _from_recognition(self, message: FromWorker) -> None:
        if isinstance(message, Ready):
            self._recognition_ready(message)
        elif isinstance(message, RecognitionProgress):
            self._recognition_progress(message)
        elif isinstance(message, Notice):
            health = message.health
            self._board.health(message.source, health.code, health.severity, health.message, **health.details)
        elif isinstance(message, Removed) and message.source in self._removals:
            self._removals[message.source].set()
        elif isinstance(message, Recognized | Heard | GapSeen | Drained):
            self._about_source(message)

    def _about_source(self, message: Recognized | Heard | GapSeen | Drained) -> None:
        record = self._board.records.get(message.source)
        if record is None:  # removed meanwhile
            return
        if isinstance(message, Recognized):
            self._recognised(record, message)
        elif isinstance(message, Heard):
            self._board.heard(message)
        elif isinstance(message, GapSeen):
            self._board.saw_gap(record, message)
        else:  # perhaps its ring was closed only to make room for one of another format
            record.consumed = True
            self._settle_end(record)

    def _recognised(self, record: SourceRecord, message: Recognized) -> None:
        latency_s = self._board.recognised(record, message)
        if latency_s is not None and isinstance(message.event, Partial | Final):
            kind = "final" if isinstance(message.event, Final) else "partial"
            self._metrics.published(record.name, kind, latency_s)

    def _recognition_ready(self, ready: Ready) -> None:
        self._board.backends = ready.backends
        if not self._may_open:
            self._open_devices()
        for record in self._board.records.values():
            self._board.recogniser_is_back(record)

    def _recognition_progress(self, progress: RecognitionProgress) -> None:
        self._metrics.recognised(progress)
        for name, source in progress.sources.items():
            record = self._board.records.get(name)
            if record:
                record.checkpoint = source.checkpoint
                record.vad_prob = source.vad_prob
                record.behind_s = source.behind_s
                record.lost_frames = source.lost_frames
