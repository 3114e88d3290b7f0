"""Live streams for the load test: each at its own pace through the daemon's listeners and its one queue."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decode import Decode
from cosyd.asr.listening import Action
from cosyd.asr.recognition import Recognition, SourceListener
from cosyd.bench.speech import Audio
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Final, Partial, RecognitionEvent

PATIENCE_S = 60.0  # after the last sound; a machine that is further behind cannot do it
LOOK_S = 0.02  # longest sleep while streams run: less than a block


@dataclass(frozen=True)
class Recording:
    """Audio of whole blocks and the speech probability of each, known before: the load is recognition."""

    audio: Audio
    probs: NDArray[np.float32]

    @property
    def blocks(self) -> int:
        return len(self.probs)


@dataclass
class Times:
    """In seconds. ``first``: from the first sound of an utterance to its first partial; ``lag``: from the
    last sound that a partial heard to the partial; ``final``: from the end of the endpoint's silence, or of
    the recording, to the final."""

    first: list[float] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)
    late: float = 0.0  # worst delay of audio that was not taken at once because the recogniser was behind
    cpu_share: float = 0.0
    lost: int = 0  # utterances without a final within PATIENCE_S


class _Stream:
    """One source: its recording, its listener and where it has come to."""

    def __init__(self, name: str, recording: Recording, listener: SourceListener, begin: float) -> None:
        self.name = name
        self.recording = recording
        self.listener = listener
        self.begin = begin
        self.block = 0
        self.over = False
        self.partial_of = -1  # utterance whose first partial has come

    @property
    def due(self) -> float:
        """When its next block has been spoken."""
        return self.begin + (self.block + 1) * FRAME.block / FRAME.rate_hz

    def spoken(self, sample: int) -> float:
        """When this sample was spoken."""
        return self.begin + sample / FRAME.rate_hz

    def next(self) -> list[Action]:
        """The actions of one block more; the last ends the stream."""
        first = self.block * FRAME.block
        audio = self.recording.audio[first : first + FRAME.block]
        actions = self.listener.accept(first, audio, float(self.recording.probs[self.block]))
        self.block += 1
        if self.block == self.recording.blocks:
            self.over = True
            actions += self.listener.finish("end_of_stream")
        return actions


class LiveLoad:
    """``count`` streams at a time, begun evenly over ``spread_s``."""

    def __init__(
        self, recognition: Recognition, recordings: Sequence[Recording], count: int, spread_s: float = 1.0
    ) -> None:
        self._queue = recognition.queue
        self._times = Times()
        now = time.monotonic()
        vad, endpoint, asr = VadConfig(), EndpointConfig(), AsrConfig()
        self._streams: dict[str, _Stream] = {}
        for i in range(count):
            name = f"stream{i}"
            listener = recognition.listen(
                vad, endpoint, asr, FRAME.rate_hz, source=name, limit_s=recognition.limit_s
            )
            recording = recordings[i % len(recordings)]
            self._streams[name] = _Stream(name, recording, listener, now + spread_s * i / count)

    def run(self) -> Times:
        """All streams to their ends. Takes as long as the recordings, and what the recogniser is behind."""
        cpu, begun = time.process_time(), time.monotonic()
        last = max(stream.spoken(stream.recording.audio.size) for stream in self._streams.values())
        while self._unfinished() and time.monotonic() < last + PATIENCE_S:
            self._turn()
        self._times.lost = sum(stream.listener.pending for stream in self._streams.values())
        self._times.cpu_share = (time.process_time() - cpu) / (time.monotonic() - begun)
        for name in self._streams:
            self._queue.forget_source(name)
        return self._times

    def _unfinished(self) -> bool:
        return any(not stream.over or stream.listener.pending for stream in self._streams.values())

    def _turn(self) -> None:
        now = time.monotonic()
        open_ones = [stream for stream in self._streams.values() if not stream.over]
        for stream in open_ones:
            while not stream.over and stream.due <= now and self._queue.has_room(stream.name):
                self._times.late = max(self._times.late, now - stream.due)
                self._act(stream, stream.next())
        soonest = min((stream.due for stream in open_ones if not stream.over), default=now + LOOK_S)
        self._queue.wait(min(LOOK_S, max(0.0, soonest - time.monotonic())))
        for result in self._queue.results():
            stream = self._streams[result.decode.source]
            if result.transcript is None:
                self._events(stream, stream.listener.failed(result.decode))
            else:
                self._events(stream, stream.listener.decoded(result.decode, result.transcript))

    def _act(self, stream: _Stream, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Decode):
                self._queue.submit(action)
            else:
                self._events(stream, [action])

    def _events(self, stream: _Stream, events: Iterable[RecognitionEvent]) -> None:
        now = time.monotonic()
        for event in events:
            if isinstance(event, Partial):
                self._times.lag.append(now - stream.spoken(event.end_sample))
                if event.utt != stream.partial_of:
                    stream.partial_of = event.utt
                    self._times.first.append(now - stream.spoken(event.start_sample))
            elif isinstance(event, Final) and event.reason != "no_speech":
                self._times.final.append(now - stream.spoken(event.decided_sample))
