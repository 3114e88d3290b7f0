"""Moonshine (Jeffries et al. 2024): an encoder-decoder over raw 16 kHz audio, on ONNX Runtime.

Three files: an encoder ``input_values`` [1, N] -> hidden [1, T, 288]; a decoder in two branches, one that
starts afresh with any number of tokens and one that goes on from a cache; a vocabulary.

What costs what (tiny-en, int8, one AMD EPYC core without VNNI): encoding 12-15 ms per second of audio, a
decoder run 5-6 ms, of which less than 0.3 ms are copies of the cache, so plain arrays are as good as bound
memory; a run over twenty tokens costs as much as three runs over one. Hence *drafts*: tokens that an earlier
partial result had are checked in one run, and only what differs is decoded token by token.

Requests of a batch are decoded one after the other: the networks are quantised with scales taken over the
whole input, so a batch would make a result depend on its neighbours, and on one thread it saves nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.loops import cut_loop
from cosyd.asr.recognizer import Audio, SegmentRequest
from cosyd.asr.tokenizer import BOS, EOS, Tokenizer
from cosyd.errors import ModelDamaged
from cosyd.spec import FRAME
from cosyd.types import Backend, Transcript

log = logging.getLogger(__name__)

Array = NDArray[Any]

TOKENS_PER_S = 6.5  # the model's authors' bound on what fits into a second of English
TOKENS_MARGIN = 8  # so that very short clips can end on their own
LIMIT_S = 30.0  # the decoder was trained on 194 positions: 30 s at 6.5 tokens/s
SHORTEST = FRAME.rate_hz // 10  # below 0.1 s the encoder's convolutions have too little to chew on
_ENCODER_FILE, _DECODER_FILE, _VOCABULARY_FILE = (
    "encoder_model.ort",
    "decoder_model_merged.ort",
    "tokenizer.bin",
)


class Session(Protocol):
    """What is needed of a loaded network (``cosyd.models.onnx.Network``)."""

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def device(self) -> str: ...

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> list[Array]: ...


@dataclass
class _Decoding:
    """Tokens after BOS so far, the log probability of each, and the decoder's cache for them.

    ``logits`` [vocabulary] are those of the token that comes next.
    """

    tokens: list[int]
    scores: list[float]
    logits: Array
    cache: dict[str, Array]


def _log_prob(logits: Array, token: int) -> float:
    top = logits.max()
    return float(logits[token] - top - math.log(np.exp(logits - top).sum()))


class _Decoder:
    """The decoder network for one encoded piece of audio."""

    def __init__(self, session: Session, shape: tuple[int, int], hidden: Array, samples: int) -> None:
        self._session = session
        self.context: tuple[int, ...] = ()  # tokens of what was said before
        self._past = [name for name in session.inputs if name.startswith("past_key_values.")]
        heads, size = shape
        self._empty = {name: np.zeros((1, heads, 0, size), np.float32) for name in self._past}
        self._growing = [name for name in self._past if ".decoder." in name]
        # The mask has the length of the audio in samples: the graph itself brings it down to frames.
        self._fixed = {
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": np.ones((1, samples), np.int64),
        }

    def begin(self, tokens: Sequence[int]) -> tuple[Array, dict[str, Array]]:
        """BOS, context and tokens in one run -> logits [len(tokens) + 1, vocabulary] and the cache.

        Row ``i`` of the logits predicts token ``i``.
        """
        names = ["logits", *(_present(name) for name in self._past)]
        logits, *present = self._run([BOS, *self.context, *tokens], self._empty, names, use_cache=False)
        return logits[0, len(self.context) :], dict(zip(self._past, present, strict=True))

    def step(self, token: int, cache: dict[str, Array]) -> Array:
        """One more token -> logits [vocabulary]; the cache grows in place."""
        names = ["logits", *(_present(name) for name in self._growing)]
        logits, *present = self._run([token], cache, names, use_cache=True)
        cache.update(zip(self._growing, present, strict=True))
        return np.asarray(logits[0, -1])

    def shorten(self, cache: dict[str, Array], positions: int) -> None:
        for name in self._growing:
            cache[name] = np.ascontiguousarray(cache[name][:, :, :positions])

    def _run(
        self, tokens: Sequence[int], past: Mapping[str, Array], outputs: list[str], *, use_cache: bool
    ) -> list[Array]:
        feeds: dict[str, Array] = {
            "input_ids": np.array([tokens], np.int64),
            "use_cache_branch": np.array([use_cache]),
            **self._fixed,
            **past,
        }
        return self._session.run(feeds, outputs)


def _present(name: str) -> str:
    return name.replace("past_key_values", "present")


class Moonshine:
    """A SegmentRecognizer. Not for several threads at a time."""

    family: Literal["segment", "streaming"] = "segment"

    def __init__(
        self,
        name: str,
        encoder: Session,
        decoder: Session,
        vocabulary: Tokenizer,
        shape: tuple[int, int] = (8, 36),
    ) -> None:
        """``shape``: the decoder's attention heads and the size of each; (8, 36) is tiny's."""
        self._name = name
        self._encoder = encoder
        self._decoder = decoder
        self._vocabulary = vocabulary
        self._shape = shape
        if "use_cache_branch" not in decoder.inputs or "input_values" not in encoder.inputs:
            raise ModelDamaged(f"{name}: these are not Moonshine's networks; run: cosyd models verify {name}")

    @classmethod
    def load(cls, folder: Path, *, name: str = "moonshine-tiny-en", threads: int = 1) -> Moonshine:
        """From a folder with the three files. Raises ModelMissing or ModelDamaged."""
        from cosyd.models.onnx import open_session

        # No arena: every length of audio has another shape, and the arena would keep a piece for each.
        encoder = open_session(folder / _ENCODER_FILE, threads=threads, arena=False)
        decoder = open_session(folder / _DECODER_FILE, threads=threads, arena=False)
        return cls(name, encoder, decoder, Tokenizer.load(folder / _VOCABULARY_FILE))

    @property
    def name(self) -> str:
        return self._name

    @property
    def backend(self) -> Backend:
        return Backend(self._decoder.device.lower(), "int8 networks, ONNX Runtime")

    @property
    def limit_s(self) -> float:
        return LIMIT_S

    def warm_up(self) -> None:
        self.transcribe([SegmentRequest(np.zeros(FRAME.rate_hz, np.float32))])

    def close(self) -> None:
        """Nothing to do: the networks go with the object."""

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        """Decode each request. Raises InferenceError when a network fails."""
        return [self._transcribe(request) for request in requests]

    def _transcribe(self, request: SegmentRequest) -> Transcript:
        audio = _at_least(request.audio, SHORTEST)
        decoder = _Decoder(self._decoder, self._shape, self._encode(audio), audio.size)
        decoder.context = self._vocabulary.encode(request.context)
        heard = audio.size - request.context_samples
        most = round(heard / FRAME.rate_hz * TOKENS_PER_S) + TOKENS_MARGIN
        result = self._transcript(self._decode(decoder, request.draft, most))
        if request.context and not result.text:
            # Now and then a context is taken for all there is to say.
            return self._transcribe(_without_context(request))
        if begins_with(result.text, request.prompt):
            return result
        # The free result contradicts what was promised: decode again, made to begin with the promise.
        prompt = self._vocabulary.encode(request.prompt)
        return self._transcript(self._decode(decoder, prompt, most + len(prompt), forced=True))

    def _encode(self, audio: Audio) -> Array:
        feeds: dict[str, Array] = {
            "input_values": audio[None],
            "attention_mask": np.ones((1, audio.size), np.int64),
        }
        return self._encoder.run(feeds)[0]

    def _decode(
        self, decoder: _Decoder, first: Sequence[int], most: int, *, forced: bool = False
    ) -> _Decoding:
        """Greedy. ``first`` is a draft to be checked or, if ``forced``, a beginning to be taken as it is."""
        state = self._begin(decoder, first[:most], forced)
        inside_word = bool(state.tokens) and not forced
        mask = None if inside_word or not (forced or decoder.context) else self._vocabulary.starts_word
        while len(state.tokens) < most:
            logits = state.logits if mask is None else np.where(mask, state.logits, -np.inf)
            mask = None
            token = int(logits.argmax())
            if token == EOS:
                break
            state.scores.append(_log_prob(state.logits, token))
            state.tokens.append(token)
            if cut := cut_loop(state.tokens):
                log.info("%s repeated itself; %d tokens cut off", self._name, cut)
                break
            state.logits = decoder.step(token, state.cache)
        return state

    def _begin(self, decoder: _Decoder, first: Sequence[int], forced: bool) -> _Decoding:
        logits, cache = decoder.begin(first)
        agreed = len(first) if forced else _agreement(logits, first)
        tokens = list(first[:agreed])
        scores = [_log_prob(logits[i], token) for i, token in enumerate(tokens)]
        if agreed < len(first):
            decoder.shorten(cache, len(decoder.context) + agreed + 1)
        return _Decoding(tokens, scores, logits[agreed], cache)

    def _transcript(self, state: _Decoding) -> Transcript:
        text = self._vocabulary.decode(state.tokens)
        scores = state.scores[: len(state.tokens)]
        conf = math.exp(sum(scores) / len(scores)) if scores else None
        return Transcript(text, tuple(state.tokens), conf, sure=self._sure(state.tokens, scores, text))

    def _sure(self, tokens: Sequence[int], scores: Sequence[float], text: str) -> tuple[float, ...]:
        """The least probability among the tokens of each word."""
        sure: list[float] = []
        for token, score in zip(tokens, scores, strict=True):
            if self._vocabulary.starts_word[token] or not sure:
                sure.append(1.0)
            sure[-1] = min(sure[-1], math.exp(score))
        return tuple(sure) if len(sure) == len(text.split()) else ()


def _agreement(logits: Array, draft: Sequence[int]) -> int:
    """How many tokens of a draft greedy decoding would have chosen itself; row ``i`` predicts token ``i``."""
    if not draft:
        return 0
    wrong = np.flatnonzero(logits[:-1].argmax(axis=-1) != np.asarray(draft))
    return int(wrong[0]) if wrong.size else len(draft)


def _without_context(request: SegmentRequest) -> SegmentRequest:
    return replace(request, audio=request.audio[request.context_samples :], context="", context_samples=0)


def _at_least(audio: Audio, samples: int) -> Audio:
    if audio.size >= samples:
        return audio
    return np.concatenate([audio, np.zeros(samples - audio.size, np.float32)])


def begins_with(text: str, prompt: str) -> bool:
    """Whether the text begins with these words, the last of them complete."""
    return not prompt or text == prompt or text.startswith(prompt + " ")
