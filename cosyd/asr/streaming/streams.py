"""Streams through a model: audio of any length in, text so far out; steps in batches of any composition."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosyd.asr.confidence import calibrated
from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.hypothesis import Hypothesis, StreamDecoder
from cosyd.asr.recognizer import Audio
from cosyd.asr.streaming.chunk import LiveTranscript
from cosyd.asr.streaming.encoder import SlottedEncoder
from cosyd.asr.streaming.features import RATE_HZ, FeatureStream, Frames
from cosyd.asr.streaming.model import Search, StreamingModel, silence
from cosyd.asr.streaming.transcript import confidence, stable_text, transcript_of
from cosyd.errors import InferenceError

log = logging.getLogger(__name__)

# Models say a piece up to so much later than it is spoken: what is said at the very end needs that, too.
LATE_S = 0.32
ALL = 64  # more readings than any beam has


@dataclass
class _Stream:
    """``start_s``: time of the frame from which ``frames`` are counted."""

    features: FeatureStream
    search: StreamDecoder[Any]
    state: Any
    graph: ContextGraph | None = None
    start_s: float = 0.0
    frames: int = 0
    samples: int = 0
    ended: bool = False
    said: tuple[tuple[int, ...], ...] = ()  # tokens of all readings when ``shown`` was made of them
    shown: tuple[str, str, float | None] = ("", "", None)  # text, its stable part, confidence
    live: LiveTranscript | None = None  # what was told last, until the next step


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
        search = search or Search()
        self._plain = model.search(search.paths, search.blank_penalty)
        paths = max(search.paths, search.hotword_paths)
        self._boosted = model.search(paths, search.blank_penalty)  # of streams with hotwords
        self._streams: dict[int, _Stream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def warm_up(self) -> None:
        """Make what the first steps would otherwise have to make, and run one step of one stream."""
        self._encoder.warm_up()
        slot = self.open()
        self.push(slot, silence(self._spec.feature.samples_for(self._spec.window + 1)))
        self.run([slot])
        self.close(slot)

    def shut(self) -> None:
        """Give back what the engine has lent, before it is closed; idempotent. Nothing runs any more."""
        self._encoder.shut()

    def open(self, graph: ContextGraph | None = None, *, start_s: float = 0.0) -> int:
        """A new stream's slot. ``graph``: phrases to favour. ``start_s``: time of its first sample, in the
        clock that word times shall have. Raises InferenceError when all slots are in use."""
        slot = self._encoder.open()
        search = self._plain if graph is None else self._boosted
        self._streams[slot] = _Stream(self._spec.feature.open(), search, search.open(graph), graph, start_s)
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

    def step(self, slots: Sequence[int], attempts: int = 1) -> list[int]:
        """One step of each of these streams, which must be ready. Returns those for which the network gave no
        numbers: their states begin anew, and the others of the batch have not noticed.

        Raises InferenceError when the encoder failed that often, or the search did: the audio of that step is
        then lost to these streams, and they can go on with the next.
        """
        spec = self._spec
        streams = [self._streams[slot] for slot in slots]
        windows = [stream.features.window(spec.window, spec.shift) for stream in streams]
        scores = self._encode(slots, windows, attempts)
        sound = np.isfinite(scores.sum(axis=(1, 2)))
        for search in (self._plain, self._boosted):
            rows = [row for row, stream in enumerate(streams) if sound[row] and stream.search is search]
            if rows:
                part = scores if len(rows) == len(streams) else scores[rows]
                search.decode(part, [streams[row].state for row in rows])
                for row in rows:
                    streams[row].frames += scores.shape[1]
                    streams[row].live = None
        lost = [slot for slot, fine in zip(slots, sound.tolist(), strict=True) if not fine]
        for slot in lost:
            self._encoder.reset(slot)
        return lost

    def _encode(self, slots: Sequence[int], windows: Sequence[Frames], attempts: int) -> Frames:
        for _ in range(attempts - 1):
            try:
                return self._encoder.step(slots, windows)
            except InferenceError as error:
                log.warning("%s; once more", error)
        return self._encoder.step(slots, windows)

    def run(self, slots: Iterable[int], most: int | None = None) -> None:
        """Step until none of these streams is ready; ``most`` streams a batch."""
        waiting = list(slots)
        while batch := self.ready(waiting)[: most or self.capacity]:
            self.step(batch)

    def n_best(self, slot: int, n: int = 1, *, final: bool = False) -> list[Hypothesis]:
        """The best readings so far, best first; ``final``: nothing follows."""
        stream = self._streams[slot]
        return stream.search.n_best(stream.state, n, final=final)

    def transcript(self, slot: int, *, final: bool = False) -> LiveTranscript:
        """The text since the stream was opened or restarted; words with times in the ``final`` one only."""
        stream = self._streams[slot]
        if stream.live is not None and not final:  # no step since
            return stream.live
        beams = self.n_best(slot, ALL, final=final)
        trailing_s = beams[0].trailing_blanks * self._spec.frame_s
        tokens = self.model.tokens
        if final:
            whole = transcript_of(beams[0], tokens, self._spec.frame_s, stream.start_s)
            whole = calibrated(whole, self.model.calibration)
            return LiveTranscript(**vars(whole), stable=whole.text, trailing_s=trailing_s)
        said = tuple(beam.tokens for beam in beams)
        if said != stream.said:  # most steps say nothing new
            text, stable = tokens.text(said[0]), stable_text(said, tokens)
            stream.said, stream.shown = said, (text, stable, confidence(beams[0].log_probs))
        text, stable, conf = stream.shown
        stream.live = LiveTranscript(text, said[0], conf, stable=stable, trailing_s=trailing_s)
        return stream.live

    def restart(self, slot: int) -> None:
        """The text begins anew, with the same hotwords, and the encoder goes on: nothing is heard twice."""
        stream = self._streams[slot]
        stream.state = stream.search.restart(stream.state, stream.graph)
        stream.start_s += stream.frames * self._spec.frame_s
        stream.frames, stream.live = 0, None

    def close(self, slot: int) -> None:
        del self._streams[slot]
        self._encoder.close(slot)
