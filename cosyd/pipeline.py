"""The recogniser as a library: audio in, events out, in one's own process and without sockets.

::

    from cosyd import Pipeline

    with Pipeline(rate_hz=16_000) as pipeline:
        for chunk in recording:  # as it comes, in chunks of any length
            for event in pipeline.push(chunk):
                print(event.topic, getattr(event, "text", ""))
        for event in pipeline.finish():
            print(event.topic, getattr(event, "text", ""))

The same code, models and configuration as the daemon's, and the same events (``cosyd.client``). See
docs/library.md.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosyd.config.load import from_mapping, load, named_files
from cosyd.config.schema import Config, SourceConfig
from cosyd.errors import AudioError, CosydError
from cosyd.publish.messages import AsrFinal, AsrPartial, Doa, Health, Level, Message, Vad
from cosyd.ring import RingWriter, remove_ring
from cosyd.runtime.assembly import open_recognition
from cosyd.runtime.collector import Collector
from cosyd.runtime.hotword_lists import with_hotwords
from cosyd.runtime.pipeline import Pipeline as Turning
from cosyd.runtime.private_ring import private_ring
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import Backend, Checkpoint

Event: TypeAlias = AsrPartial | AsrFinal | Vad | Level | Doa | Health
Pcm: TypeAlias = NDArray[Any] | bytes | bytearray | memoryview
Settings: TypeAlias = Config | Mapping[str, Any] | str | Path | None

EVENTS = (AsrPartial, AsrFinal, Vad, Level, Doa, Health)
PIECE_S = 5.0  # handed to the recogniser at once, so that its ring holds it twice over
BUFFER_S = 30.0
MOST_BEHIND_S = 2.0  # audio that may wait when push returns: while finals pile up, push waits with it
TURN_S = 0.05

_FORMATS = {
    np.dtype(np.int16): SampleFormat.S16,
    np.dtype(np.int32): SampleFormat.S32,
    np.dtype(np.float32): SampleFormat.F32,
}

T = TypeVar("T")


class Pipeline:
    """One stream of audio. A context manager; not for several threads at once.

    ``config``: a ``Config``, a dictionary as the YAML file would give it, the path of such a file, or None
    for the system's own configuration, as the daemon reads it. Of its sources the one called ``source``
    counts (its ``channel_map``, ``mix``, ``array``, ``hotwords``), if there is one.

    ``rate_hz`` and ``channels`` are those of the audio that will be pushed. Samples are int16, int32 or
    float32 in ±1, of the type of the first array pushed; bytes are interleaved little-endian int16.

    Raises ConfigError for the configuration, ModelMissing, ModelDamaged or GpuError on entering.
    """

    def __init__(
        self, config: Settings = None, *, rate_hz: int = 16_000, channels: int = 1, source: str = "audio"
    ) -> None:
        self._config = configuration(config)
        self._source = _source(self._config, source)
        self._rate_hz, self._channels = rate_hz, channels
        self._events: deque[Event] = deque()  # bounded by what one push makes: each call empties it
        self._collector = Collector(self._config.asr.model, EVENTS, self._collected)
        self._collector.live = True
        self._stack = ExitStack()
        self._turning: Turning | None = None
        self._writer: RingWriter | None = None
        self._finished = False
        self.backends: dict[str, Backend] = {}  # what each stage runs on, and why

    def __enter__(self) -> Pipeline:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Pipeline:
        """Load the models; ``with`` does it. Once in the life of the object."""
        if self._turning is not None or self._finished:
            raise CosydError("this Pipeline has been opened before; make a new one for another stream")
        recognition = open_recognition(with_hotwords(self._config), self._collector.receive)
        self._turning, runs_on = self._stack.enter_context(recognition)
        self.backends = runs_on()
        self._collector.add(self._source)
        return self

    def push(self, pcm: Pcm) -> list[Event]:
        """Take audio [n] or [n, channels] and return the events there are by now, possibly of earlier audio.

        Does not wait for the recogniser, unless audio comes faster than it can be recognised. Raises
        AudioError for what is no such audio.
        """
        turning = self._open_turning()
        frames = _frames(pcm, self._channels)
        writer = self._writer or self._start(turning, frames.dtype)
        if _FORMATS[frames.dtype] is not writer.spec.format:
            raise AudioError(f"the stream began with {writer.spec.format.value} samples, not {frames.dtype}")
        piece = int(PIECE_S * self._rate_hz)
        for start in range(0, len(frames), piece):
            writer.write(np.ascontiguousarray(frames[start : start + piece]))
            self._turn(turning)
        return self.events()

    def events(self) -> list[Event]:
        """The events that have come since they were last asked for; does not wait."""
        if self._writer is not None and not self._finished:
            self._turn(self._open_turning())
        events = list(self._events)
        self._events.clear()
        return events

    def finish(self) -> Iterator[Event]:
        """The audio is over: yields the rest of the events as they come, the last final included."""
        turning = self._open_turning()
        self._finished = True
        if self._writer is not None:
            self._writer.close(unlink=False)
            while not self._collector.drained and self._turning is not None:  # None: closed meanwhile
                yield from self._taken()
                turning.turn(TURN_S)
        yield from self._taken()

    def close(self) -> None:
        """Give everything back; what was not finished is dropped. Idempotent."""
        self._finished = True
        turning, self._turning = self._turning, None
        try:
            if turning is not None:
                turning.discard()
        finally:
            self._stack.close()

    def _open_turning(self) -> Turning:
        if self._turning is None:
            raise CosydError("this Pipeline is not open; use it in a with statement")
        if self._finished:
            raise CosydError("this stream is finished; make a new Pipeline for another one")
        return self._turning

    def _start(self, turning: Turning, dtype: np.dtype[Any]) -> RingWriter:
        path = private_ring("library")
        spec = AudioSpec(self._rate_hz, self._channels, _FORMATS[dtype])
        self._writer = writer = RingWriter.open(path, spec, BUFFER_S)
        self._stack.callback(remove_ring, path)
        self._stack.callback(writer.close)
        turning.add_source(self._source, path, Checkpoint(sample=0), muted=False)
        return writer

    def _turn(self, turning: Turning) -> None:
        """Until what was written is read, and no longer."""
        while turning.turn(0.0) or turning.progress().sources[self._source.name].behind_s > MOST_BEHIND_S:
            pass

    def _collected(self, message: Message) -> None:
        if isinstance(message, EVENTS):
            self._events.append(message)

    def _taken(self) -> Iterator[Event]:
        while self._events:
            yield self._events.popleft()


class AsyncPipeline:
    """``Pipeline`` for asyncio: the same, on a thread of its own, so that the event loop goes on.

    ::

        async with AsyncPipeline(rate_hz=16_000) as pipeline:
            async for chunk in microphone:
                for event in await pipeline.push(chunk):
                    ...
            async for event in pipeline.finish():
                ...
    """

    def __init__(
        self, config: Settings = None, *, rate_hz: int = 16_000, channels: int = 1, source: str = "audio"
    ) -> None:
        self._pipeline = Pipeline(config, rate_hz=rate_hz, channels=channels, source=source)
        self._thread: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> AsyncPipeline:
        self._thread = ThreadPoolExecutor(1, "cosyd-pipeline")
        try:
            await self._run(self._pipeline.open)
        except CosydError:
            self._thread.shutdown()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            await self._run(self._pipeline.close)
            self._thread.shutdown()

    @property
    def backends(self) -> dict[str, Backend]:
        """What each stage runs on, and why."""
        return self._pipeline.backends

    async def push(self, pcm: Pcm) -> list[Event]:
        """See ``Pipeline.push``."""
        return await self._run(lambda: self._pipeline.push(pcm))

    async def events(self) -> list[Event]:
        """See ``Pipeline.events``."""
        return await self._run(self._pipeline.events)

    async def finish(self) -> AsyncIterator[Event]:
        """See ``Pipeline.finish``."""
        rest = self._pipeline.finish()
        while (event := await self._run(lambda: next(rest, None))) is not None:
            yield event

    async def _run(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise CosydError("this AsyncPipeline is not open; use it in an async with statement")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def configuration(config: Settings) -> Config:
    """See ``Pipeline``. Raises ConfigError with every fault."""
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        return from_mapping(config)
    return load(None if config is None else named_files([config])).config


def _source(config: Config, name: str) -> SourceConfig:
    """The configured source of that name, or a plain one; that it has a device matters to nobody here."""
    found = next((source for source in config.sources if source.name == name), None)
    return found or SourceConfig(name=name, type="pipe", rate_hz=FRAME.rate_hz, path="-")


def _frames(pcm: Pcm, channels: int) -> NDArray[Any]:
    """[n, channels] of a sample type that the ring takes. Raises AudioError."""
    frames = np.frombuffer(pcm, np.int16) if isinstance(pcm, bytes | bytearray | memoryview) else pcm
    if frames.dtype not in _FORMATS:
        raise AudioError(f"samples are {frames.dtype}; give int16, int32 or float32 in ±1")
    if frames.ndim == 1:
        if frames.size % channels:
            raise AudioError(f"{frames.size} samples are no whole frames of {channels} channels")
        return frames.reshape(-1, channels)
    if frames.ndim != 2 or frames.shape[1] != channels:
        raise AudioError(f"audio has shape {list(frames.shape)}, not [n, {channels}]")
    return frames
