"""Putting front end, recogniser and pipeline together, the same for the daemon and for files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cosyd.asr.recognition import open_recogniser
from cosyd.asr.text.scribe import make_scribe
from cosyd.config.paths import Paths
from cosyd.config.schema import Config, GpuConfig
from cosyd.gpu.factory import open_front_end
from cosyd.models.store import ModelStore
from cosyd.publish.messages import DAEMON
from cosyd.runtime.ipc import Alive, FromWorker, GpuReport, Notice, Renew
from cosyd.runtime.pipeline import Pipeline
from cosyd.runtime.writing import with_writing
from cosyd.types import Backend, GpuUsage, Health

if TYPE_CHECKING:
    from cosyd.asr.moonshine_networks import Networks
    from cosyd.asr.streaming.model import OpenEngine

log = logging.getLogger("cosyd.runtime")

KERNELS = "kernels"  # folder of compiled kernels in paths.cache


class _Passing:
    """Passes on what front end and recogniser tell of the GPU."""

    def __init__(self, emit: Callable[[FromWorker], None]) -> None:
        self._emit = emit

    def health(self, health: Health) -> None:
        self._emit(Notice(DAEMON, health))

    def usage(self, usage: GpuUsage) -> None:
        self._emit(GpuReport(usage))

    def alive(self) -> None:
        self._emit(Alive())

    def renew(self, reason: str) -> None:
        self._emit(Renew(reason))


def _tell_of_processor(gpu: GpuConfig, asr: Backend, told: _Passing) -> None:
    """A recogniser on the processor although a GPU was asked for is not passed over in silence."""
    if gpu.backend == "cuda" and "cpu" in asr.name.lower():
        text = f"the recogniser runs on the CPU: {asr.reason}"
        log.warning("%s", text)
        told.health(Health("gpu_unusable", "error", text))


@contextmanager
def open_recognition(
    config: Config, emit: Callable[[FromWorker], None]
) -> Iterator[tuple[Pipeline, Callable[[], dict[str, Backend]]]]:
    """A warm pipeline without sources, and what its stages run on, asked anew each time.

    Raises ModelError, GpuError.
    """
    paths = Paths.resolve(config.paths)
    store, kernels = ModelStore(paths.models), paths.cache / KERNELS
    streams, told = config.frontend.max_streams, _Passing(emit)

    @cache
    def engines() -> OpenEngine:
        """Loaded for a streaming model only: others would pay for it at every start."""
        from cosyd.engine.streams import StreamEngines

        return StreamEngines(config.gpu, paths.cache, streams, config.asr.threads)

    def networks(folder: Path) -> Networks:
        """Moonshine's."""
        from cosyd.asr.moonshine_engines import open_networks

        return open_networks(
            folder,
            folder.name,
            config.gpu,
            paths.cache,
            threads=config.asr.threads,
            renew=told.renew,
            alive=told.alive,
        )

    with (
        open_front_end(config.frontend, config.gpu, store, kernels, told) as front_end,
        open_recogniser(config.asr, store, streams, lambda file: engines()(file), networks) as recognition,
    ):
        _tell_of_processor(config.gpu, recognition.runs_on, told)
        queue, limit_s = recognition.queue, recognition.limit_s
        out = with_writing(emit, make_scribe(config.text))
        pipeline = Pipeline(
            config, front_end, queue, limit_s, out, recognition.listen, patience_s=recognition.patience_s
        )
        try:
            yield pipeline, lambda: {**front_end.backends, "asr": recognition.runs_on}
        finally:
            pipeline.close()
