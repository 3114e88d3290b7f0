"""A recogniser with all that belongs to it, opened by the name or folder of a model.

The two families differ in what their listeners ask for and in the queue in between; who feeds sources and
publishes events sees the same surfaces.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decode import Decode, DecodeResult
from cosyd.asr.decode_queue import DecodeQueue, DecodeStatistics
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.listener import Listener
from cosyd.asr.listening import Action
from cosyd.asr.recognizers import Store, load_recognizer, open_streaming, streaming_folder
from cosyd.asr.streaming.listener import StreamingListener
from cosyd.asr.streaming.model import OpenEngine
from cosyd.asr.streaming.stream_queue import StreamQueue
from cosyd.asr.two_pass import TwoPassQueue
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.errors import ConfigError
from cosyd.types import Backend, Checkpoint, EndReason, RecognitionEvent, Transcript


class SourceListener(Protocol):
    """``Listener`` and ``StreamingListener``: see the first for what is promised."""

    @property
    def pending(self) -> int: ...

    @property
    def idle(self) -> bool: ...

    @property
    def checkpoint(self) -> Checkpoint: ...

    def reconfigure(self, vad: VadConfig, endpoint: EndpointConfig, asr: AsrConfig) -> None: ...

    def accept(self, sample: int, audio: NDArray[np.float32], vad_prob: float) -> list[Action]: ...

    def finish(self, reason: EndReason) -> list[Action]: ...

    def decoded(self, decode: Decode, transcript: Transcript) -> list[RecognitionEvent]: ...

    def failed(self, decode: Decode) -> list[RecognitionEvent]: ...


class RecognitionQueue(Protocol):
    """``DecodeQueue`` and ``StreamQueue``."""

    def submit(self, decode: Decode, timeout_s: float | None = None) -> bool: ...

    def has_room(self, source: str) -> bool: ...

    def results(self) -> list[DecodeResult]: ...

    def wait(self, timeout_s: float) -> bool: ...

    def forget_source(self, source: str) -> None: ...

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]: ...

    def statistics(self) -> DecodeStatistics: ...


@dataclass(frozen=True)
class Recognition:
    """``listen`` makes the listener of one source, with the arguments of ``Listener``; ``limit_s`` is the
    longest utterance that the recogniser takes."""

    queue: RecognitionQueue
    listen: Callable[..., SourceListener]
    limit_s: float
    backend: Backend


@contextmanager
def open_recogniser(
    config: AsrConfig, store: Store, streams: int, open_engine: OpenEngine | None = None
) -> Iterator[Recognition]:
    """The recogniser that the configuration names, warm, with its queue; for ``streams`` sources at most.

    ``open_engine``: opens the networks of a streaming model; None: on the processor.
    Raises ConfigError for a name that is no recogniser's, ModelMissing or ModelDamaged for its files.
    """
    with ExitStack() as stack:
        folder = streaming_folder(config, store)
        if folder is None and config.second_pass is not None:
            what = (
                f"{config.model} hears whole utterances itself; asr.model must be a streaming model's folder"
            )
            raise ConfigError([f"asr.second_pass: {what}"])
        if folder is None:
            yield _segment(config, store, stack)
        elif config.second_pass is None:
            streaming = open_streaming(config, folder, streams, open_engine)
            stack.callback(streaming.close)
            stream_queue = stack.enter_context(StreamQueue(streaming))
            yield Recognition(stream_queue, StreamingListener, float("inf"), streaming.backend)
        else:
            yield _two_passes(config, config.second_pass, folder, store, streams, stack, open_engine)


def _segment(config: AsrConfig, store: Store, stack: ExitStack) -> Recognition:
    recognizer = load_recognizer(config, store)
    stack.callback(recognizer.close)
    queue = stack.enter_context(DecodeQueue(recognizer, second_opinion=config.second_opinion))
    return Recognition(queue, Listener, recognizer.limit_s, recognizer.backend)


def _two_passes(
    config: AsrConfig,
    second: str,
    folder: Path,
    store: Store,
    streams: int,
    stack: ExitStack,
    open_engine: OpenEngine | None,
) -> Recognition:
    one = open_streaming(config, folder, streams, open_engine)
    stack.callback(one.close)
    two = load_recognizer(config.model_copy(update={"model": second}), store)
    stack.callback(two.close)
    wake = threading.Event()
    first = stack.enter_context(StreamQueue(one, on_result=wake.set))
    second_queue = DecodeQueue(two, on_result=wake.set, second_opinion=config.second_opinion)
    within_s = None if config.second_pass_ms is None else config.second_pass_ms / 1000
    queue = TwoPassQueue(first, stack.enter_context(second_queue), two.name, within_s=within_s, wake=wake)
    backend = Backend(one.backend.name, f"{one.backend.reason}; finals: {two.name} on {two.backend.name}")
    return Recognition(queue, StreamingListener, two.limit_s, backend)
