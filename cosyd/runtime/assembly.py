"""Putting front end, recogniser and pipeline together, the same for the daemon and for files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from cosyd.asr.recognition import open_recogniser
from cosyd.asr.streaming.model import OpenEngine
from cosyd.asr.text.scribe import make_scribe
from cosyd.config.paths import Paths
from cosyd.config.schema import Config
from cosyd.gpu.factory import open_front_end
from cosyd.models.store import ModelStore
from cosyd.publish.messages import DAEMON
from cosyd.runtime.ipc import Alive, FromWorker, GpuReport, Notice
from cosyd.runtime.pipeline import Pipeline
from cosyd.runtime.writing import with_writing
from cosyd.types import Backend, GpuUsage, Health

KERNELS = "kernels"  # folder of compiled kernels in paths.cache


class _Passing:
    """Passes on what the front end tells of the GPU."""

    def __init__(self, emit: Callable[[FromWorker], None]) -> None:
        self._emit = emit

    def health(self, health: Health) -> None:
        self._emit(Notice(DAEMON, health))

    def usage(self, usage: GpuUsage) -> None:
        self._emit(GpuReport(usage))

    def alive(self) -> None:
        self._emit(Alive())


@contextmanager
def open_recognition(
    config: Config, emit: Callable[[FromWorker], None]
) -> Iterator[tuple[Pipeline, dict[str, Backend]]]:
    """A warm pipeline without sources, and what its stages run on. Raises ModelError, GpuError."""
    paths = Paths.resolve(config.paths)
    store, kernels = ModelStore(paths.models), paths.cache / KERNELS
    streams = config.frontend.max_streams

    @cache
    def engines() -> OpenEngine:
        """Loaded for a streaming model only: others would pay for it at every start."""
        from cosyd.engine.streams import StreamEngines

        return StreamEngines(config.gpu, paths.cache, streams, config.asr.threads)

    with (
        open_front_end(config.frontend, config.gpu, store, kernels, _Passing(emit)) as front_end,
        open_recogniser(config.asr, store, streams, lambda file: engines()(file)) as recognition,
    ):
        queue, limit_s = recognition.queue, recognition.limit_s
        out = with_writing(emit, make_scribe(config.text))
        pipeline = Pipeline(config, front_end, queue, limit_s, out, recognition.listen)
        try:
            yield pipeline, {**front_end.backends, "asr": recognition.backend}
        finally:
            pipeline.close()
