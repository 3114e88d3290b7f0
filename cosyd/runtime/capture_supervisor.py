"""The daemon's side of capture: one worker a source, and what follows from its messages.

Workers are started at once but open their devices only when the models are ready, so that nothing overruns
while they load. A source is handed to the recogniser when its device has been opened, with the sample at
which that was.
"""

from __future__ import annotations

from typing import Any

from cosyd.config.paths import ring_path
from cosyd.runtime import capture_worker
from cosyd.runtime.board import SourceRecord
from cosyd.runtime.fleet_context import FleetContext
from cosyd.runtime.ipc import Failed, FromWorker, Open
from cosyd.runtime.recognition_supervisor import RecognitionSupervisor
from cosyd.runtime.supervision import SupervisedWorker, WorkerState
from cosyd.types import CaptureProgress, DeviceLost, DeviceOpened, GapRecorded, SourceEnded

CAPTURE_EVENTS = (DeviceOpened, DeviceLost, GapRecorded, SourceEnded, CaptureProgress)


class CaptureSupervisor:
    """Tells ``context.on_fatal`` when no source is left that could be used."""

    def __init__(self, context: FleetContext, recognition: RecognitionSupervisor) -> None:
        self._context = context
        self._board = context.board
        self._metrics = context.metrics
        self._recognition = recognition
        self._may_open = False
        self._delivered = False  # some device has been opened in this life of the daemon

    @property
    def workers(self) -> list[SupervisedWorker]:
        return [record.worker for record in self._board.records.values() if record.worker]

    def start(self, record: SourceRecord) -> None:
        """Give the source a worker. Its device follows when devices may be opened."""
        record.worker = SupervisedWorker(
            f"capture {record.name}",
            capture_worker.main,
            lambda: self._arguments(record),
            lambda message: self._received(record, message),
            lambda state: self._entered(record, state),
            self._context.patience,
        )
        record.worker.start()

    def open_devices(self) -> None:
        """The recogniser is ready: let all workers open their devices, those to come too."""
        if self._may_open:
            return
        self._may_open = True
        for worker in self.workers:
            worker.send(Open())

    def _arguments(self, record: SourceRecord) -> tuple[Any, ...]:
        return (
            record.config,
            ring_path(self._context.paths, record.name),
            self._context.config.log.level,
            not self._may_open,
            not record.handed_over,  # nobody has read its ring: what there is, another daemon left
            capture_worker.standard_input(record.config),
        )

    def _received(self, record: SourceRecord, message: FromWorker) -> None:
        if not isinstance(message, CAPTURE_EVENTS):
            return
        self._board.captured(record, message)
        if isinstance(message, CaptureProgress):
            self._metrics.captured(record.name, message)
        elif isinstance(message, DeviceOpened):
            self._delivered = True
            self._recognition.hand_over(record, message)
        elif isinstance(message, DeviceLost):
            self._metrics.up.labels(record.name).set(0)
            self._recognition.lose(record)
        elif isinstance(message, GapRecorded):
            self._metrics.gaps.labels(record.name).inc(message.frames)
        elif isinstance(message, SourceEnded):
            self._metrics.up.labels(record.name).set(0)
            self._board.settle_end(record)

    def _entered(self, record: SourceRecord, state: WorkerState) -> None:
        self._board.worker_state(record, state)
        assert record.worker is not None
        self._metrics.worker(record.worker.statistics())
        if state is not WorkerState.RUNNING:
            self._metrics.up.labels(record.name).set(0)
        if state is WorkerState.WAITING:
            self._board.worker_died(record.name, record.worker.statistics())
        elif state is WorkerState.FAILED:
            self._give_up_if_alone(record.worker.failure)

    def _give_up_if_alone(self, failure: Failed | None) -> None:
        """At the start, a source that cannot be used ends the daemon if there is no other.

        Once it has listened, a faulty reload must not: the state says failed, and the next reload mends it.
        """
        statuses = {record.status for record in self._board.records.values()}
        if failure and not self._delivered and statuses == {"failed"}:
            self._context.on_fatal(failure)
