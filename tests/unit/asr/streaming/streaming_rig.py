"""A streaming listener with a model that says what is in the audio: a block of word n is ``n / SCALE``."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cosyd.asr.streaming.chunk import Chunk, LiveTranscript
from cosyd.asr.streaming.listener import StreamingListener
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Checkpoint, Final, Partial, RecognitionEvent

SCALE = 65_536
Blocks = list[tuple[np.ndarray, float]]


def silence(count: int, prob: float = 0.02) -> Blocks:
    return [(np.zeros(FRAME.block, np.float32), prob)] * count


def words(first: int, last: int, blocks: int = 6, prob: float = 0.95) -> Blocks:
    """Words ``first`` to ``last``, each so many blocks long."""
    return [
        (np.full(FRAME.block, word / SCALE, np.float32), prob)
        for word in range(first, last + 1)
        for _ in range(blocks)
    ]


@dataclass
class Rig:
    """Results come ``delay`` blocks after their chunk. ``heard``: block values that the model got."""

    delay: int = 0
    vad: VadConfig = field(default_factory=VadConfig)
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    asr: AsrConfig = field(default_factory=AsrConfig)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    rate_hz: int = 16_000
    begin: int = 0
    blank_after: int | None = None  # the model hears nothing in words above this
    events: list[RecognitionEvent] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    heard: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listener = StreamingListener(
            self.vad, self.endpoint, self.asr, self.rate_hz, self.checkpoint, source="mic"
        )
        self.fed = self.begin
        self._said: list[int] = []
        self._blanks = 0
        self._due: list[tuple[int, Chunk, LiveTranscript]] = []

    def feed(self, blocks: Blocks) -> Rig:
        for audio, prob in blocks:
            sample = round(self.fed * FRAME.block * self.rate_hz / FRAME.rate_hz)
            self._act(self.listener.accept(sample, audio, prob))
            self.fed += 1
            self._results()
        return self

    def finish(self, reason: str = "end_of_stream") -> Rig:
        self._act(self.listener.finish(reason))  # type: ignore[arg-type]
        self._results(everything=True)
        return self

    def _act(self, actions: list) -> None:
        for action in actions:
            if isinstance(action, Chunk):
                self.chunks.append(action)
                self._due.append((self.fed + self.delay, action, self._model(action)))
            else:
                self.events.append(action)

    def _model(self, chunk: Chunk) -> LiveTranscript:
        for value in np.rint(chunk.audio[:: FRAME.block] * SCALE).astype(int).tolist():
            self.heard.append(value)
            spoken = value and (self.blank_after is None or value <= self.blank_after)
            self._blanks = 0 if spoken else self._blanks + 1
            if spoken and self._said[-1:] != [value]:
                self._said.append(value)
        said = [f"w{value}" for value in self._said]
        trailing_s = self._blanks * FRAME.block_ms / 1000
        if chunk.ends:
            self._said, self._blanks = [], 0
        stable = said if chunk.ends else said[:-1]
        return LiveTranscript(
            " ".join(said), tuple(range(len(said))), 0.1, stable=" ".join(stable), trailing_s=trailing_s
        )

    def _results(self, everything: bool = False) -> None:
        while self._due and (everything or self._due[0][0] <= self.fed):
            _, chunk, transcript = self._due.pop(0)
            self.events += self.listener.decoded(chunk, transcript)

    @property
    def finals(self) -> list[Final]:
        return [event for event in self.events if isinstance(event, Final)]

    @property
    def partials(self) -> list[Partial]:
        return [event for event in self.events if isinstance(event, Partial)]
