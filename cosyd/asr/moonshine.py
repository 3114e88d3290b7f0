"""Moonshine (Jeffries et al. 2024): an encoder-decoder over raw 16 kHz audio.

Its networks run where ``moonshine_networks`` and ``moonshine_engines`` open them.

What costs what (tiny-en, int8, one AMD EPYC core without VNNI): encoding 12 ms per second of audio, a decoder
run over one token 4.6 ms, over eight 8 ms. Hence *drafts*: tokens that an earlier partial result had are
checked in one run, and only what differs is decoded token by token. And hence the beam (``moonshine_beam``):
four paths in one run cost a third more than one.

Requests of a batch are decoded one after the other: the encoder normalises over the whole of its audio, so
padding would change it, and the networks are quantised with scales taken over the whole input, so a result
would depend on its neighbours. All that could be shared are the steps of the decoder, half of a final.
Measured with four paths each: of four finals that wait a shared step costs 0.64 of four single ones, of eight
0.58; that is a sixth of the finals' time. Rounding each row for itself (MatMulNBits), so that nobody's
company matters, costs more than that: a step of 16 rows 23 instead of 13 ms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.moonshine_beam import BeamSearch
from cosyd.asr.moonshine_bias import Bias
from cosyd.asr.moonshine_decoding import Decoding, Said
from cosyd.asr.moonshine_draft import Begun
from cosyd.asr.moonshine_hotwords import Favourites
from cosyd.asr.moonshine_networks import VOCABULARY_FILE, Decoder, Networks, open_on_processor
from cosyd.asr.moonshine_words import spans
from cosyd.asr.recognizer import Audio, SegmentRequest
from cosyd.asr.stable import word_key
from cosyd.asr.tokenizer import Tokenizer
from cosyd.spec import FRAME
from cosyd.types import Backend, Transcript, Word

Search = Callable[[Decoder, Begun, int], Said]

TOKENS_PER_S = 6.5  # the model's authors' bound on what fits into a second of English
TOKENS_MARGIN = 8  # so that very short clips can end on their own
LIMIT_S = 30.0  # the decoder was trained on 194 positions: 30 s at 6.5 tokens/s
SHORTEST = FRAME.rate_hz // 10  # below 0.1 s the encoder's convolutions have too little to chew on
OTHERS = 4  # readings told beside the best; later ones differ in a comma
HOTWORD_BEAM = 4  # paths when hotwords are active: greedy decoding has nothing to choose from


class Moonshine:
    """A SegmentRecognizer. Not for several threads at a time, but for ``unusable``."""

    family: Literal["segment", "streaming"] = "segment"

    def __init__(self, name: str, networks: Networks, vocabulary: Tokenizer, *, beam: int = 1) -> None:
        """Owns the networks. ``beam``: paths that decoding follows."""
        self._name = name
        self._networks = networks
        self._vocabulary = vocabulary
        self._beam = beam
        self._favourites = Favourites(vocabulary, name)
        self._decoding = Decoding(vocabulary, name)

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        name: str = "moonshine-tiny-en",
        threads: int = 1,
        beam: int = 1,
        open_networks: Callable[[Path], Networks] | None = None,
    ) -> Moonshine:
        """From a folder with the three files. ``open_networks``: opens the networks in it; None: on the
        processor, with so many ``threads``. Raises ModelMissing or ModelDamaged."""
        vocabulary = Tokenizer.load(folder / VOCABULARY_FILE)
        if open_networks is None:
            return cls(name, open_on_processor(folder, name, threads=threads), vocabulary, beam=beam)
        return cls(name, open_networks(folder), vocabulary, beam=beam)

    @property
    def name(self) -> str:
        return self._name

    @property
    def backend(self) -> Backend:
        return self._networks.backend

    @property
    def limit_s(self) -> float:
        return LIMIT_S

    def warm_up(self) -> None:
        self.transcribe([SegmentRequest(np.zeros(FRAME.rate_hz, np.float32))])

    def close(self) -> None:
        self._networks.close()

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        return self._favourites.unusable(hotwords)

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        """Decode each request. Raises InferenceError when a network fails."""
        return [self._networks.guarded(partial(self._transcribe, request)) for request in requests]

    def _transcribe(self, request: SegmentRequest) -> Transcript:
        audio = _at_least(request.audio, SHORTEST)
        decoder = self._listen(request, audio)
        most = round(audio.size / FRAME.rate_hz * TOKENS_PER_S) + TOKENS_MARGIN
        bias = self._favourites.bias(request.hotwords)
        search = self._search(request, bias)
        begun = self._begun(request)
        said = self._decode(decoder, begun, most, search)
        text = self._vocabulary.decode(said.tokens)
        if not begins_with(text, request.prompt):
            # The free result contradicts what was promised: decode again, made to begin with the promise.
            prompt = self._vocabulary.encode(request.prompt)
            said = self._decode(decoder, Begun(prompt, len(prompt)), most + len(prompt), search)
        return self._transcript(said, decoder, request, audio)

    def _listen(self, request: SegmentRequest, audio: Audio) -> Decoder:
        if request.quick:
            return self._networks.follow(audio, request.source)
        return self._networks.listen(audio)

    def _begun(self, request: SegmentRequest) -> Begun:
        """A result begins with what was promised, so that a search has that behind it and no second decode is
        needed. A quick one also keeps what was said before where that is nearly as likely: what somebody
        reads should change for a reason."""
        draft, promised = request.draft, len(request.prompt.split())
        if not begins_with(self._vocabulary.decode(draft), request.prompt):
            if not request.quick:
                return Begun(draft)
            draft = self._vocabulary.encode(request.prompt)
            return Begun(draft, len(draft))
        bounds = self._bounds(draft)
        forced = bounds[promised - 1][1] + 1 if 0 < promised <= len(bounds) else 0
        return Begun(draft, forced, bounds[-1][0] if bounds and request.quick else 0)

    # --- decoding ---

    def _decode(self, decoder: Decoder, begun: Begun, most: int, search: Search) -> Said:
        begun = replace(begun, tokens=begun.tokens[:most], forced=min(begun.forced, most))
        return search(decoder, begun, most)

    def _search(self, request: SegmentRequest, bias: Bias | None) -> Search:
        if bias is not None:
            paths = max(1 if request.quick else self._beam, HOTWORD_BEAM)
            return partial(self._decoding.beamed, search=BeamSearch(paths, bias))
        if self._beam == 1:
            return self._decoding.greedy
        if request.quick:
            return self._decoding.followed
        return partial(self._decoding.beamed, search=BeamSearch(self._beam))

    # --- results ---

    def _transcript(self, said: Said, decoder: Decoder, request: SegmentRequest, audio: Audio) -> Transcript:
        text = self._vocabulary.decode(said.tokens)
        conf = math.exp(sum(said.scores) / len(said.scores)) if said.scores else None
        sure = self._sure(said, text)
        words: tuple[Word, ...] = ()
        if request.words and self._networks.attention and sure:
            words = self._words(said, decoder, text, sure, audio)
        readings = dict.fromkeys(self._vocabulary.decode(tokens) for tokens in said.others)
        others = [reading for reading in readings if reading != text][:OTHERS]
        counts = tuple(last - first + 1 for first, last in self._bounds(said.tokens)) if sure else ()
        return Transcript(text, said.tokens, conf, words, sure, tuple(others), counts=counts)

    def _sure(self, said: Said, text: str) -> tuple[float, ...]:
        """The least probability among the tokens of each word."""
        sure = [
            min(math.exp(score) for score in said.scores[first : last + 1])
            for first, last in self._bounds(said.tokens)
        ]
        return tuple(sure) if len(sure) == len(text.split()) else ()

    def _bounds(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """The first and the last token of each word."""
        firsts = [i for i, token in enumerate(tokens) if self._vocabulary.starts_word[token] or i == 0]
        return [(a, b - 1) for a, b in zip(firsts, [*firsts[1:], len(tokens)], strict=False)]

    def _words(
        self, said: Said, decoder: Decoder, text: str, sure: Sequence[float], audio: Audio
    ) -> tuple[Word, ...]:
        bounds = self._bounds(said.tokens)
        spoken = [self._last_spoken(said.tokens, first, last) for first, last in bounds]
        attention = decoder.attention(said.tokens, said.cache)
        found = spans(attention, [last for _, last in bounds], spoken, audio)
        return tuple(
            Word(word, round(span.start, 3), round(span.end, 3), conf)
            for word, span, conf in zip(text.split(), found, sure, strict=True)
        )

    def _last_spoken(self, tokens: Sequence[int], first: int, last: int) -> int:
        """The last token of a word that is not only punctuation."""
        while last > first and not any(c.isalnum() for c in self._vocabulary.decode([tokens[last]])):
            last -= 1
        return last


def _at_least(audio: Audio, samples: int) -> Audio:
    if audio.size >= samples:
        return audio
    return np.concatenate([audio, np.zeros(samples - audio.size, np.float32)])


def begins_with(text: str, prompt: str) -> bool:
    """Whether the text begins with these words, the last of them complete; case and marks do not count."""
    promised = [word_key(word) for word in prompt.split()]
    return [word_key(word) for word in text.split()[: len(promised)]] == promised
