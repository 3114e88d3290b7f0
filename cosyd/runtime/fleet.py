"""The daemon's workers as a whole: one that recognises, one for each source that captures.

Their lives and the changes of configuration are here; what follows from the messages of a worker is its
supervisor's part (`recognition_supervisor`, `capture_supervisor`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from cosyd.config.paths import ring_path
from cosyd.config.reload import Changes
from cosyd.config.schema import Config, SourceConfig
from cosyd.ring import remove_ring
from cosyd.runtime.board import SourceRecord
from cosyd.runtime.capture_supervisor import CaptureSupervisor
from cosyd.runtime.debug_tap import tap_path
from cosyd.runtime.fleet_context import FleetContext
from cosyd.runtime.ipc import Reconfigure, SetLogLevel, SetMuted
from cosyd.runtime.recognition_supervisor import RecognitionSupervisor
from cosyd.runtime.supervision import SupervisedWorker
from cosyd.types import Checkpoint


class Fleet:
    """Starts, watches, changes and stops the workers."""

    def __init__(self, context: FleetContext) -> None:
        self._context = context
        self._board = context.board
        self.recognition = RecognitionSupervisor(context, self._recogniser_ready)
        self.capture = CaptureSupervisor(context, self.recognition)

    # --- life ---

    def start(self) -> None:
        """Start the recogniser; the devices follow when it is ready."""
        self.recognition.worker.start()
        for source in self._context.config.sources:
            self.capture.start(self._board.add(source))

    def _recogniser_ready(self) -> None:
        self.capture.open_devices()

    async def stop(self) -> None:
        """Close the devices, then recognise what is left, then end the recogniser."""
        await asyncio.gather(*(self.recognition.expect_close(name) for name in self._board.records))
        await asyncio.gather(*(worker.stop() for worker in self.capture.workers))
        await self.recognition.worker.stop()
        for record in self._board.records.values():
            self._board.enter(record, "stopped")
            self._remove_tap(record.name)

    def check(self) -> None:
        """Look for workers that hang. To be called several times a second."""
        for worker in self.workers():
            worker.check()

    def workers(self) -> Iterator[SupervisedWorker]:
        yield self.recognition.worker
        yield from self.capture.workers

    @property
    def healthy(self) -> bool:
        return all(worker.healthy for worker in self.workers())

    @property
    def looping(self) -> bool:
        """Whether a worker dies again and again."""
        return any(worker.statistics().crash_loop for worker in self.workers())

    @property
    def listening(self) -> bool:
        """Whether speech into at least one source would become text now."""
        return self.recognition.running and any(record.listening for record in self._board.records.values())

    # --- changes ---

    async def apply(self, config: Config, changes: Changes) -> None:
        """Swap in a configuration whose restart-only keys are the old ones."""
        before = {source.name: source for source in self._context.config.sources}
        after = {source.name: source for source in config.sources}
        self._context.config = config
        for name in changes.removed:
            await self._remove(name)
        for name in changes.changed:
            await self._change(before[name], after[name])
        for name in changes.added:
            self._add(after[name], Checkpoint())
        self.recognition.send(Reconfigure(config))
        for worker in self.workers():
            worker.send(SetLogLevel(config.log.level))

    def mute(self, record: SourceRecord, muted: bool) -> None:
        self._board.mute(record, muted)
        self.recognition.send(SetMuted(record.name, muted))

    def favour(self, applied: Callable[[Config], Config]) -> None:
        """Other hotwords, which are all that ``applied`` changes in a configuration."""
        config = self._context.config = applied(self._context.config)
        for source in config.sources:
            if source.name in self._board.records:
                self._board.records[source.name].config = source
        self.recognition.send(Reconfigure(config))

    async def _change(self, old: SourceConfig, new: SourceConfig) -> None:
        if old.model_copy(update={"muted": new.muted, "hotwords": new.hotwords}) == new:
            record = self._board.records[new.name]
            record.config = new
            self.mute(record, new.muted)
            return
        utt = self._board.records[new.name].checkpoint.utt
        await self._remove(new.name)
        self._add(new, Checkpoint(utt=utt))

    def _remove_tap(self, name: str) -> None:
        """What a recogniser that was killed has left; one that ended in order has left none."""
        remove_ring(tap_path(ring_path(self._context.paths, name)))

    def _add(self, source: SourceConfig, checkpoint: Checkpoint) -> None:
        record = self._board.add(source)
        record.checkpoint = checkpoint
        self.capture.start(record)

    async def _remove(self, name: str) -> None:
        record = self._board.records[name]
        await self.recognition.available()
        await self.recognition.expect_close(name)
        if record.worker:
            await record.worker.stop()
        await self.recognition.forget(name)
        self._remove_tap(name)
        self._board.remove(record)
        self._context.metrics.forget(name)
