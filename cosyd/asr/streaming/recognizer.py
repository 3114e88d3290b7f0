"""A streaming model as a recogniser of the daemon."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Literal

from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.ngram import NgramLm
from cosyd.asr.decoders.spelling import Speller, spell_hotwords
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.recognizer import Audio
from cosyd.asr.streaming.chunk import LiveTranscript
from cosyd.asr.streaming.folder import Precision
from cosyd.asr.streaming.model import OpenEngine, Search, StreamingModel
from cosyd.asr.streaming.streams import Streams
from cosyd.errors import ModelError
from cosyd.models.pages import in_huge_pages
from cosyd.types import Backend

HOTWORD_PATHS = 4  # followed for a stream with hotwords where one would do without: sherpa-onnx's default


class CachedStateRecognizer:
    """Owns the model. ``accept`` and ``finish`` are for who has no thread; the daemon has a StreamQueue,
    which works on ``streams`` itself."""

    family: Literal["streaming"] = "streaming"

    def __init__(self, model: StreamingModel, *, name: str, paths: int = 1, capacity: int = 8) -> None:
        """``paths``: hypotheses followed, 1 is greedy. ``capacity``: most streams at a time."""
        self.name = name
        self.streams = Streams(model, Search(paths, max(paths, HOTWORD_PATHS)), capacity)
        self._model = model
        self._spelt: tuple[tuple[Hotword, ...], ContextGraph | None] = ((), None)  # the list asked for last

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        name: str,
        open_engine: OpenEngine | None = None,
        threads: int = 1,
        paths: int = 1,
        capacity: int = 8,
        language_model: Path | None = None,
        language_weight: float = 0.3,
        precision: Precision | Literal["auto"] | None = None,
    ) -> CachedStateRecognizer:
        """``open_engine``: opens a network's file; None: on the processor, with so many ``threads``.
        ``language_model``: n-grams of words. ``precision``: see ``StreamingModel.load``. Raises ModelMissing
        or ModelDamaged for what is no folder of a streaming model, or no language model."""
        with ExitStack() as loaded:
            with in_huge_pages():
                model = loaded.enter_context(
                    StreamingModel.load(
                        folder, open_engine, precision=precision, threads=threads, streams=capacity
                    )
                )
            if language_model is not None:
                lm = NgramLm.load(language_model, model.tokens, weight=language_weight)
                model.language_model = lm
            loaded.pop_all()
        return cls(model, name=name, paths=paths, capacity=capacity)

    @property
    def backend(self) -> Backend:
        backend = self._model.encoder.backend
        return Backend(
            backend.name, f"{self._model.spec.family} in {self._model.precision}; {backend.reason}"
        )

    def warm_up(self) -> None:
        """The first streams then find their memory ready."""
        self.streams.warm_up()

    def open(self, hotwords: Sequence[Hotword] = (), *, start_s: float = 0.0) -> int:
        """A free slot, reset. ``start_s``: time of the first sample, in the clock of the words."""
        return self.streams.open(self._graph(tuple(hotwords)), start_s=start_s)

    def _graph(self, hotwords: tuple[Hotword, ...]) -> ContextGraph | None:
        """Of the phrases that can be spelt; lists change seldom, utterances begin often."""
        if hotwords != self._spelt[0]:
            speller = self._speller if hotwords else None
            graph = spell_hotwords(hotwords, speller)[0] if isinstance(speller, Speller) else None
            self._spelt = hotwords, graph
        return self._spelt[1]

    @cached_property
    def _speller(self) -> Speller | ModelError:
        """Or why there is none."""
        try:
            return Speller.beside(self._model.tokens, self._model.folder.path)
        except ModelError as error:
            return error

    def accept(self, slots: Sequence[int], audio: Sequence[Audio]) -> list[LiveTranscript]:
        """New samples for these slots, float32 [n] in ±1 at 16 kHz, any n each; the text of each so far.

        Raises InferenceError."""
        for slot, samples in zip(slots, audio, strict=True):
            self.streams.push(slot, samples)
        self.streams.run(slots)
        return [self.streams.transcript(slot) for slot in slots]

    def finish(self, slot: int) -> LiveTranscript:
        """Flush the tail as the model demands, give the final text, free the slot."""
        self.streams.end(slot)
        self.streams.run([slot])
        transcript = self.streams.transcript(slot, final=True)
        self.streams.close(slot)
        return transcript

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        """Those of these phrases that would have no effect, and why. May be called from any thread."""
        speller = self._speller
        if isinstance(speller, ModelError):
            return tuple(Rejected(hotword.phrase, str(speller)) for hotword in hotwords)
        return spell_hotwords(hotwords, speller)[2]

    def close(self) -> None:
        """Idempotent."""
        self.streams.shut()
        self._model.close()
