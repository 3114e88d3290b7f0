"""Putting front end, recogniser and pipeline together, the same for the daemon and for files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cosyd.asr.decode_queue import DecodeQueue
from cosyd.asr.recognizers import load_recognizer
from cosyd.config.paths import Paths
from cosyd.config.schema import Config
from cosyd.frontend.factory import make_front_end
from cosyd.models.store import ModelStore
from cosyd.runtime.ipc import FromWorker
from cosyd.runtime.pipeline import Pipeline
from cosyd.types import Backend


@contextmanager
def open_recognition(
    config: Config, emit: Callable[[FromWorker], None]
) -> Iterator[tuple[Pipeline, dict[str, Backend]]]:
    """A warm pipeline without sources, and what its stages run on. Raises ModelError, GpuError."""
    store = ModelStore(Paths.resolve(config.paths).models)
    front_end, _ = make_front_end(config.frontend, config.gpu, store)
    recognizer = load_recognizer(config.asr, store)
    try:
        recognizer.warm_up()
        with DecodeQueue(recognizer) as queue:
            pipeline = Pipeline(config, front_end, queue, recognizer.limit_s, emit)
            try:
                yield pipeline, {**front_end.backends, "asr": recognizer.backend}
            finally:
                pipeline.close()
    finally:
        recognizer.close()
