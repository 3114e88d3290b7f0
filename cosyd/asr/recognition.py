"""A recogniser with all that belongs to it, opened by the name or folder of a model.

The two families differ in what their listeners ask for and in the queue in between; who feeds sources and
publishes events sees the same surfaces. What belongs to streaming models is loaded where one is opened: it
would be a tenth of every start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decode import Decode, DecodeResult
from cosyd.asr.decode_queue import DecodeQueue, DecodeStatistics
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.listener import Listener
from cosyd.asr.listening import Action
from cosyd.asr.recognizer import Patient, SegmentRecognizer
from cosyd.asr.recognizers import OpenNetworks, Store, load_recognizer, open_streaming, streaming_folder
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.errors import ConfigError
from cosyd.types import Backend, Checkpoint, EndReason, RecognitionEvent, Transcript

if TYPE_CHECKING:
    from cosyd.asr.streaming.model import OpenEngine


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
    now: Callable[[], Backend] | None = None
    patience_s: float = 0.0  # before the recogniser counts as hung; 0: as long as usual

    @property
    def runs_on(self) -> Backend:
        """``backend`` as it is now: engines change over and fail."""
        return self.backend if self.now is None else self.now()


@contextmanager
def open_recogniser(
    config: AsrConfig,
    store: Store,
    streams: int,
    open_engine: OpenEngine | None = None,
    open_networks: OpenNetworks | None = None,
) -> Iterator[Recognition]:
    """The recogniser that the configuration names, warm, with its queue; for ``streams`` sources at most.

    ``open_engine``: opens the networks of a streaming model, ``open_networks`` those of Moonshine; None: on
    the processor.
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
            yield _segment(config, store, stack, open_networks)
        elif config.second_pass is None:
            from cosyd.asr.streaming.listener import StreamingListener
            from cosyd.asr.streaming.stream_queue import StreamQueue

            streaming = open_streaming(config, folder, streams, open_engine)
            stack.callback(streaming.close)
            stream_queue = stack.enter_context(StreamQueue(streaming))
            yield Recognition(stream_queue, StreamingListener, float("inf"), streaming.backend)
        else:
            second = config.model_copy(update={"model": config.second_pass})
            two = load_recognizer(second, store, open_networks)
            stack.callback(two.close)
            yield _two_passes(config, folder, two, streams, stack, open_engine)


def _segment(
    config: AsrConfig, store: Store, stack: ExitStack, open_networks: OpenNetworks | None
) -> Recognition:
    recognizer = load_recognizer(config, store, open_networks)
    stack.callback(recognizer.close)
    queue = stack.enter_context(DecodeQueue(recognizer, second_opinion=config.second_opinion))
    return Recognition(
        queue,
        Listener,
        recognizer.limit_s,
        recognizer.backend,
        lambda: recognizer.backend,
        _patience_s(recognizer),
    )


def _patience_s(recognizer: SegmentRecognizer) -> float:
    return recognizer.patience_s if isinstance(recognizer, Patient) else 0.0


def _two_passes(
    config: AsrConfig,
    folder: Path,
    two: SegmentRecognizer,
    streams: int,
    stack: ExitStack,
    open_engine: OpenEngine | None,
) -> Recognition:
    from cosyd.asr.streaming.listener import StreamingListener
    from cosyd.asr.streaming.stream_queue import StreamQueue
    from cosyd.asr.two_pass import TwoPassQueue

    one = open_streaming(config, folder, streams, open_engine)
    stack.callback(one.close)
    wake = threading.Event()
    first = stack.enter_context(StreamQueue(one, on_result=wake.set))
    second_queue = DecodeQueue(two, on_result=wake.set, second_opinion=config.second_opinion)
    within_s = None if config.second_pass_ms is None else config.second_pass_ms / 1000
    queue = TwoPassQueue(first, stack.enter_context(second_queue), two.name, within_s=within_s, wake=wake)

    def runs_on() -> Backend:
        of_one, of_two = one.backend, two.backend
        finals = f"finals: {two.name} on {of_two.name} ({of_two.reason})"
        return Backend(of_one.name, f"{of_one.reason}; {finals}")

    return Recognition(queue, StreamingListener, two.limit_s, runs_on(), runs_on, _patience_s(two))
