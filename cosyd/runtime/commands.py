"""What the control socket's commands do. One method a command; replies are plain JSON objects."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from cosyd.config.paths import Paths, ring_path
from cosyd.errors import ControlError
from cosyd.publish.control import (
    DumpParams,
    Handler,
    HotwordsParams,
    NoParams,
    ReplayParams,
    Reply,
    SourceParams,
)
from cosyd.publish.publisher import Publisher
from cosyd.runtime.board import Board, SourceRecord
from cosyd.runtime.dump import FOLDER, dump
from cosyd.runtime.fleet import Fleet
from cosyd.runtime.hotwords import HotwordKeeper
from cosyd.version import VERSION


class Commands:
    """The handlers. ``reload`` and ``shutdown`` belong to the daemon and are given."""

    def __init__(
        self,
        board: Board,
        fleet: Fleet,
        publisher: Publisher,
        hotwords: HotwordKeeper,
        paths: Paths,
        reload: Callable[[], Awaitable[Reply]],
        shutdown: Callable[[], None],
    ) -> None:
        self._board = board
        self._fleet = fleet
        self._publisher = publisher
        self._hotwords = hotwords
        self._paths = paths
        self._reload = reload
        self._shutdown = shutdown
        self._started_at = time.monotonic()

    def handlers(self) -> dict[str, Handler]:
        return {
            "status": Handler(NoParams, self.status),
            "reload": Handler(NoParams, self.reload),
            "mute": Handler(SourceParams, self.mute),
            "unmute": Handler(SourceParams, self.unmute),
            "replay": Handler(ReplayParams, self.replay),
            "dump": Handler(DumpParams, self.dump),
            "hotwords": Handler(HotwordsParams, self.hotwords),
            "shutdown": Handler(NoParams, self.shutdown),
        }

    async def status(self, _: NoParams) -> Reply:
        """Everything at a glance: sources, workers, backends, the publisher."""
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self._started_at, 1),
            "listening": self._fleet.listening,
            "healthy": self._fleet.healthy,
            "model": self._board.model,
            "backends": {name: asdict(backend) for name, backend in self._board.backends.items()},
            "sources": [_describe(record) for record in self._board.records.values()],
            "workers": [asdict(worker.statistics()) for worker in self._fleet.workers()],
            "publisher": asdict(self._publisher.statistics()),
        }

    async def reload(self, _: NoParams) -> Reply:
        return await self._reload()

    async def mute(self, params: SourceParams) -> Reply:
        return self._set_muted(params, True)

    async def unmute(self, params: SourceParams) -> Reply:
        return self._set_muted(params, False)

    async def dump(self, params: DumpParams) -> Reply:
        """Files with the last seconds of sources. What was muted is nobody's business."""
        records = [record for record in self._chosen(params.source) if not record.muted]
        if not records:
            raise ControlError("muted: nothing of it is written; unmute it, and ask again")
        folder = self._paths.state / FOLDER
        files: list[Path] = []
        for record in records:
            ring = ring_path(self._paths, record.name)
            files += await asyncio.to_thread(dump, record.name, ring, folder, params.seconds)
        return {"files": [str(file) for file in files]}

    async def replay(self, params: ReplayParams) -> Reply:
        """A page of the kept events after ``since``."""
        return self._publisher.replay(
            params.since, until=params.until, topics=params.topics, limit=params.limit
        )

    async def hotwords(self, params: HotwordsParams) -> Reply:
        return await self._hotwords.change(params)

    async def shutdown(self, _: NoParams) -> Reply:
        self._shutdown()
        return {}

    def _set_muted(self, params: SourceParams, muted: bool) -> Reply:
        records = self._chosen(params.source)
        for record in records:
            self._fleet.mute(record, muted)
        return {"sources": [record.name for record in records], "muted": muted}

    def _chosen(self, name: str | None) -> list[SourceRecord]:
        if name is None:
            return list(self._board.records.values())
        if name not in self._board.records:
            raise ControlError(f"no source {name!r}; there are {', '.join(self._board.records)}")
        return [self._board.records[name]]


def _describe(record: SourceRecord) -> dict[str, object]:
    opened = record.opened
    return {
        "name": record.name,
        "type": record.config.type,
        "status": record.status,
        "reason": record.reason,
        "muted": record.muted,
        "device": opened.device if opened else "",
        "rate_hz": opened.rate_hz if opened else 0,
        "channels": opened.channels if opened else 0,
        "format": opened.format if opened else "",
        "sample": record.sample,
        "behind_s": round(record.behind_s, 3),
        "vad_prob": round(record.vad_prob, 3),
        "overruns": record.overruns,
        "lost_frames": record.lost_frames,
        "drift_ppm": record.drift_ppm,
        "utt": record.checkpoint.utt,
        "faults": record.faults,
        "backends": {name: asdict(backend) for name, backend in record.backends.items()},
    }
