"""Speech made of numbers, and a recogniser that reads them: block by block, without a network.

A block of word ``n`` is the constant ``n / SCALE``; silence is 0. What the fake recogniser says of a piece of
audio is therefore exactly what is in it, and a test can tell what was cut, doubled or lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cosyd.asr.decode import Decode
from cosyd.asr.listener import Listener
from cosyd.asr.recognizer import SegmentRequest
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Backend, Checkpoint, Final, Partial, RecognitionEvent, Transcript

SCALE = 4096  # exact in float32
BLOCK_MS = FRAME.block_ms


def blocks_of(ms: float) -> int:
    return FRAME.blocks(ms)


@dataclass(frozen=True)
class Piece:
    """``ms`` of word ``word`` (0: silence) at probability ``prob``."""

    ms: float
    word: int = 0
    prob: float | None = None

    @property
    def probability(self) -> float:
        return self.prob if self.prob is not None else (0.95 if self.word else 0.02)


Stream = list[tuple[np.ndarray, float]]


def stream(*pieces: Piece) -> Stream:
    """Blocks of audio with their probability."""
    return [
        (np.full(FRAME.block, piece.word / SCALE, np.float32), piece.probability)
        for piece in pieces
        for _ in range(blocks_of(piece.ms))
    ]


def sentence(first: int, count: int, ms: float = 200) -> list[Piece]:
    """Words ``first`` ... without pauses."""
    return [Piece(ms, word) for word in range(first, first + count)]


def words_in(audio: np.ndarray) -> list[str]:
    """The words in a piece of audio; a word spoken twice in a row is one."""
    ids = np.rint(audio * SCALE).astype(int)
    changes = np.flatnonzero(np.diff(ids, prepend=0))
    return [f"w{ids[i]}" for i in changes if ids[i]]


class FakeRecognizer:
    """Says what is in the audio. ``change`` (number of the call, words) may turn it into something else."""

    family = "segment"
    name = "fake"
    backend = Backend("fake", "a test")
    limit_s = 30.0

    def __init__(self, change: Callable[[int, list[str]], list[str]] | None = None) -> None:
        self.calls = 0
        self.requests: list[SegmentRequest] = []
        self._change = change

    def warm_up(self) -> None: ...

    def close(self) -> None: ...

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        return [self._one(request) for request in requests]

    def _one(self, request: SegmentRequest) -> Transcript:
        self.calls += 1
        self.requests.append(request)
        words = words_in(request.audio)
        if self._change is not None:
            words = self._change(self.calls, words)
        return Transcript(" ".join(words), tuple(range(len(words))), 0.9)


@dataclass
class Rig:
    """A listener, a recogniser whose results come ``delay`` blocks later, and what came out."""

    recognizer: FakeRecognizer = field(default_factory=FakeRecognizer)
    delay: int = 0
    vad: VadConfig = field(default_factory=VadConfig)
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    asr: AsrConfig = field(default_factory=AsrConfig)
    rate_hz: int = 16_000
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    begin: int = 0
    events: list[RecognitionEvent] = field(default_factory=list)
    when: list[int] = field(default_factory=list)
    decodes: list[Decode] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listener = Listener(
            self.vad, self.endpoint, self.asr, self.rate_hz, self.checkpoint, source="mic"
        )
        self.fed = self.begin
        self._due: list[tuple[int, Decode, Transcript]] = []

    def sample(self, block: int) -> int:
        return round(block * FRAME.block * self.rate_hz / FRAME.rate_hz)

    def feed(self, blocks: Stream) -> Rig:
        for audio, prob in blocks:
            self._take(self.listener.accept(self.sample(self.fed), audio, prob))
            self.fed += 1
            self._results()
        return self

    def finish(self, reason: str = "end_of_stream") -> Rig:
        self._take(self.listener.finish(reason))  # type: ignore[arg-type]
        self.fed += self.delay + 1
        self._results()
        return self

    def _take(self, actions: Sequence[object]) -> None:
        for action in actions:
            if isinstance(action, Decode):
                self.decodes.append(action)
                request = SegmentRequest(action.audio, action.prompt, action.draft)
                self._due.append((self.fed + self.delay, action, self.recognizer.transcribe([request])[0]))
            else:
                self._record([action])  # type: ignore[list-item]

    def _results(self) -> None:
        while self._due and self._due[0][0] <= self.fed:
            _, decode, transcript = self._due.pop(0)
            self._record(self.listener.decoded(decode, transcript))

    def _record(self, events: Sequence[RecognitionEvent]) -> None:
        self.events += events
        self.when += [self.fed] * len(events)

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def finals(self) -> list[Final]:
        return self.of(Final)

    @property
    def text(self) -> str:
        return " ".join(final.text for final in self.finals if final.text)


def broken_promises(events: Sequence[RecognitionEvent]) -> list[tuple[str, str]]:
    """(stable prefix, later text) of every text that does not begin with what was promised before."""
    promised: dict[int, str] = {}
    broken = []
    for event in events:
        if not isinstance(event, (Partial, Final)):
            continue
        before = promised.get(event.utt, "").split()
        if event.text.split()[: len(before)] != before:
            broken.append((" ".join(before), event.text))
        if isinstance(event, Partial):
            if event.stable.split()[: len(before)] != before or not event.text.startswith(event.stable):
                broken.append((" ".join(before), event.stable))
            promised[event.utt] = event.stable
    return broken
