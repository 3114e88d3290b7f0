"""Streams through a model: audio of any length in, text so far out; steps in batches of any composition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.hypothesis import Hypothesis, StreamDecoder
from cosyd.asr.recognizer import Audio
from cosyd.asr.streaming.encoder import SlottedEncoder
from cosyd.asr.streaming.features import RATE_HZ, FeatureStream
from cosyd.asr.streaming.model import Search, StreamingModel, silence
from cosyd.asr.streaming.transcript import transcript_of
from cosyd.types import Transcript

# Models say a piece up to so much later than it is spoken: what is said at the very end needs that, too.
LATE_S = 0.32


@dataclass
class _Stream:
    features: FeatureStream
    search: Any
    samples: int = 0
    ended: bool = False


class Streams:
    """At most ``capacity`` streams at a time; borrows the model. Pure computing, for one thread at a time.

    ::

        slot = streams.open()
        streams.push(slot, audio)                  # any number of samples
        while ready := streams.ready(slots): streams.step(ready)
        streams.end(slot)                          # silence, as much as the model needs to say all
        while ready := streams.ready(slots): streams.step(ready)
        text = streams.transcript(slot); streams.close(slot)
    """

    def __init__(self, model: StreamingModel, search: Search | None = None, capacity: int = 64) -> None:
        self.model = model
        self.capacity = capacity
        self._spec = model.spec
        self._encoder = SlottedEncoder(model.encoder, model.spec, capacity)
        self._search: StreamDecoder[Any] = model.search(search or Search())
        self._streams: dict[int, _Stream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, graph: ContextGraph | None = None) -> int:
        """A new stream's slot. ``graph``: phrases to favour. Raises InferenceError when all are in use."""
        slot = self._encoder.open()
        self._streams[slot] = _Stream(self._spec.feature.open(), self._search.open(graph))
        return slot

    def push(self, slot: int, audio: Audio) -> None:
        """float32 [n] in ±1 at 16 kHz: computes features, runs no network."""
        stream = self._streams[slot]
        stream.features.accept(audio)
        stream.samples += len(audio)

    def end(self, slot: int) -> None:
        """Nothing follows: add silence until the last sample is inside a step with its full look-ahead."""
        stream = self._streams[slot]
        if not stream.ended:
            stream.ended = True
            stream.features.accept(silence(self.tail_samples(stream.samples)))

    def tail_samples(self, samples: int) -> int:
        """How much silence a stream of so many samples needs at its end."""
        late = int(LATE_S * RATE_HZ)
        return late + self._spec.tail_samples(samples + late)

    def ready(self, slots: Iterable[int] | None = None) -> list[int]:
        """Those of the streams that have audio for a step."""
        candidates = self._streams if slots is None else slots
        needed = self._spec.window + self._spec.strict
        return [slot for slot in candidates if self._streams[slot].features.ready >= needed]

    def step(self, slots: Sequence[int]) -> None:
        """One step of each of these streams, which must be ready. Raises InferenceError; the audio of that
        step is then lost to these streams, and their states are what they were."""
        spec = self._spec
        streams = [self._streams[slot] for slot in slots]
        windows = [stream.features.window(spec.window, spec.shift) for stream in streams]
        scores = self._encoder.step(slots, windows)
        self._search.decode(scores, [stream.search for stream in streams])

    def run(self, slots: Iterable[int], most: int | None = None) -> None:
        """Step until none of these streams is ready; ``most`` streams a batch."""
        waiting = list(slots)
        while batch := self.ready(waiting)[: most or self.capacity]:
            self.step(batch)

    def hypothesis(self, slot: int, *, final: bool = False) -> Hypothesis:
        return self._search.n_best(self._streams[slot].search, 1, final=final)[0]

    def transcript(self, slot: int, *, final: bool = False, start_s: float = 0.0) -> Transcript:
        """The text since the stream was opened or restarted."""
        return transcript_of(
            self.hypothesis(slot, final=final), self.model.tokens, self._spec.frame_s, start_s
        )

    def trailing_s(self, slot: int) -> float:
        """Seconds of audio since the last token."""
        return self.hypothesis(slot).trailing_blanks * self._spec.frame_s

    def restart(self, slot: int, graph: ContextGraph | None = None) -> None:
        """The text begins anew, the states of the encoder go on: what was heard is not heard again."""
        stream = self._streams[slot]
        stream.search = self._search.restart(stream.search, graph)

    def close(self, slot: int) -> None:
        del self._streams[slot]
        self._encoder.close(slot)
