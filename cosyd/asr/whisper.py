"""Whisper (Radford et al. 2022): an encoder-decoder of a hundred languages, on CTranslate2.

Its encoder was trained on windows of 30 s, of which what is not speech is silence. That much costs four
times as much as speech needs, and without any silence it loops and invents. Base on one core of an AMD
EPYC, greedily, of train/kathleen (A) and train/librispeech-251-speakers (B) 24 clips each, so many seconds
of silence after each:

======================  =====  =====  =====  =====  ==========
silence                 0.3    1      3      6      up to 30 s
A: word errors, %       96.6   29.6   7.9    7.4    8.9
A: processor time, s    0.55   0.45   0.50   0.66   2.68
B: word errors, %       46.9   27.6   13.3   6.2    12.7
B: processor time, s    0.78   0.78   0.82   0.96   2.63
======================  =====  =====  =====  =====  ==========

So ``SILENCE_S`` follow; a result that goes astray all the same is read again in the whole window. Partials
come as often as their share of the processor allows (``decode_line.PARTIAL_SHARE``), every few seconds, and
are read greedily. Drafts, which save decoding only, are not used.

A *prompt* is forced upon the decoder only where the free result contradicts it. *Hotwords* stand before the
transcript as if they had been said before; that is all the model offers, and scores mean nothing to it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.asr import whisper_guards as guards
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.recognizer import Audio, SegmentRequest
from cosyd.asr.whisper_features import FRAMES_PER_S, LONGEST, frames_in, log_mel
from cosyd.asr.whisper_network import Alignment, Readings, WhisperNetwork
from cosyd.asr.whisper_tokens import BEFORE, NO_TIMES, START, TRANSCRIBE, Vocabulary
from cosyd.asr.whisper_words import least_of, spans_of, words_of
from cosyd.asr.words import units
from cosyd.config import languages
from cosyd.errors import ConfigError, InferenceError
from cosyd.spec import FRAME
from cosyd.types import Backend, Transcript

log = logging.getLogger(__name__)

SILENCE_S = 6  # after the audio; see above
SILENCE_FRAMES = SILENCE_S * FRAMES_PER_S
LIMIT_S = 30.0  # of the encoder's window
TOKENS_PER_S = 15  # fast speech; 6 syllables a second, of which one in Chinese takes up to 3 tokens
TOKENS_MARGIN = 8  # so that very short clips can end on their own
POSITIONS = 448  # of the decoder
BEFORE_LIMIT = POSITIONS // 2 - 1  # tokens before the transcript; as many are left for it
PATIENCE_S = 60.0  # before what it is doing counts as hung ...
SLOWEST = 200  # ... or so many times what the least result took: 30 s gone astray, on a machine that is busy
APART = 5  # tokens of which no run may come twice when a loop is read again
_LEAST_SUM = 1e-9  # of probabilities: none of the languages asked for is thought of at all
OTHERS = 4  # readings told beside the best


class Network(Protocol):
    """``WhisperNetwork``, or what tests put in its place."""

    multilingual: bool
    mels: int

    @property
    def runs_on(self) -> str: ...

    def encode(self, features: NDArray[np.float32]) -> Any: ...

    def languages(self, encoded: Any) -> list[tuple[str, float]]: ...

    def read(
        self, encoded: Any, prompt: Sequence[int], *, beam: int, most: int, apart: int = 0
    ) -> Readings: ...

    def align(self, encoded: Any, start: Sequence[int], text: Sequence[int], frames: int) -> Alignment: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class _Heard:
    """A piece of audio, encoded, and the language that it is taken for; ``sure``: if that was a guess."""

    encoded: Any
    frames: int
    whole: bool  # in the whole window
    language: str
    sure: float | None

    @property
    def most(self) -> int:
        """Tokens that can have been said."""
        return min(POSITIONS // 2, self.frames * TOKENS_PER_S // FRAMES_PER_S + TOKENS_MARGIN)


@dataclass(frozen=True)
class _Said:
    """Tokens of a text, mean log probability of one, texts of other readings. ``astray``: not to be trusted,
    because it repeats itself or does not end."""

    tokens: tuple[int, ...]
    score: float
    others: tuple[str, ...] = ()
    astray: bool = False


class Whisper:
    """A SegmentRecognizer. Not for several threads at a time, but for ``unusable``."""

    family: Literal["segment", "streaming"] = "segment"

    def __init__(
        self,
        name: str,
        network: Network,
        vocabulary: Vocabulary,
        *,
        language: str = languages.AUTO,
        beam: int = 1,
    ) -> None:
        """``language``: as ``asr.language``. Raises ConfigError for one that the model does not hear."""
        self._name = name
        self._network = network
        self._vocabulary = vocabulary
        self._languages = self._checked(language)
        self._beam = beam
        self.patience_s = PATIENCE_S  # see ``recognizer.Patient``

    @classmethod
    def load(
        cls, folder: Path, *, name: str, language: str = languages.AUTO, threads: int = 1, beam: int = 1
    ) -> Whisper:
        """From a folder in CTranslate2's format. Raises ModelMissing, ModelDamaged, ConfigError."""
        vocabulary = Vocabulary.load(folder)
        network = WhisperNetwork.load(folder, name=name, threads=threads)
        try:
            return cls(name, network, vocabulary, language=language, beam=beam)
        except ConfigError:
            network.close()
            raise

    def _checked(self, language: str) -> tuple[str, ...]:
        """The languages to choose from."""
        known = tuple(self._vocabulary.languages) if self._network.multilingual else ("en",)
        wanted = languages.codes_of(language)
        for code in wanted:
            if code not in known:
                hears = "English only" if known == ("en",) else f"{len(known)} languages, this one not"
                raise ConfigError([f"asr.language: {code!r}, but {self._name} hears {hears}"])
        return wanted or known

    @property
    def name(self) -> str:
        return self._name

    @property
    def backend(self) -> Backend:
        return Backend("cpu", self._network.runs_on)

    @property
    def limit_s(self) -> float:
        return LIMIT_S

    def warm_up(self) -> None:
        began = time.monotonic()
        heard = self._hear(np.zeros(FRAME.rate_hz, np.float32))
        self._network.read(heard.encoded, self._prompt(heard, ()), beam=self._beam, most=1)
        self.patience_s = max(self.patience_s, SLOWEST * (time.monotonic() - began))

    def close(self) -> None:
        """Give the networks' memory back. Idempotent."""
        self._network.close()

    # --- hotwords ---

    def unusable(self, hotwords: Sequence[Hotword]) -> tuple[Rejected, ...]:
        """Those for which there is no room before the transcript."""
        reason = f"{self._name} takes hotwords of {BEFORE_LIMIT} tokens together; a shorter list"
        kept = self._fitting(hotwords)
        return tuple(Rejected(hotword.phrase, reason) for hotword in hotwords[kept:])

    def _fitting(self, hotwords: Sequence[Hotword]) -> int:
        """How many of the list there is room for."""
        sizes = (len(self._vocabulary.encode(f", {hotword.phrase}")) for hotword in hotwords)
        return sum(total < BEFORE_LIMIT for total in accumulate(sizes))

    def _favoured(self, hotwords: Sequence[Hotword]) -> list[int]:
        phrases = [hotword.phrase for hotword in hotwords[: self._fitting(hotwords)]]
        if not phrases:
            return []
        return [self._vocabulary[BEFORE], *self._vocabulary.encode(" " + ", ".join(phrases))]

    # --- recognition ---

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        """Decode each request. Raises InferenceError when a network fails."""
        return [self._transcribe(request) for request in requests]

    def _transcribe(self, request: SegmentRequest) -> Transcript:
        audio = request.audio
        if audio.size > LIMIT_S * FRAME.rate_hz:
            seconds = audio.size / FRAME.rate_hz
            raise InferenceError(f"{self._name}: {seconds:.1f} s of audio; its window is {LIMIT_S:.0f} s")
        if guards.silent(audio):
            return Transcript("")
        heard = self._hear(audio)
        said = self._read(heard, request)
        if said is not None and said.astray:
            log.info("%s went astray; read again in the whole window", self._name)
            heard = self._hear(audio, whole=True)
            said = self._read(heard, request)
        if said is None:
            return Transcript("", language=heard.language, language_conf=heard.sure)
        return self._transcript(said, heard, request)

    def _hear(self, audio: Audio, *, whole: bool = False) -> _Heard:
        frames = frames_in(audio.size)
        window = LONGEST if whole else min(LONGEST, (frames + SILENCE_FRAMES) // 2 * 2)
        encoded = self._network.encode(log_mel(audio, self._network.mels, window))
        return _Heard(encoded, frames, window == LONGEST, *self._spoken(encoded))

    def _spoken(self, encoded: Any) -> tuple[str, float | None]:
        """The likeliest of the languages, and how likely it is among these; None: there is but one."""
        if len(self._languages) == 1:
            return self._languages[0], None
        probs = {name.strip("<|>"): prob for name, prob in self._network.languages(encoded)}
        among = {code: probs.get(code, 0.0) for code in self._languages}
        best = max(among, key=among.__getitem__)
        return best, min(1.0, among[best] / max(sum(among.values()), _LEAST_SUM))

    def _start(self, language: str) -> list[int]:
        """What comes before every transcript."""
        start = [self._vocabulary[START]]
        if self._network.multilingual:
            start += [self._vocabulary.languages[language], self._vocabulary[TRANSCRIBE]]
        return start

    def _prompt(self, heard: _Heard, hotwords: Sequence[Hotword]) -> list[int]:
        return [*self._favoured(hotwords), *self._start(heard.language), self._vocabulary[NO_TIMES]]

    def _read(self, heard: _Heard, request: SegmentRequest) -> _Said | None:
        """None: nothing was said."""
        prompt = self._prompt(heard, request.hotwords)
        beam = 1 if request.quick else self._beam
        readings, astray = self._search(heard, prompt, beam)
        forced: tuple[int, ...] = ()
        if not astray and not _begins_with(self._text(readings.tokens[0]), request.prompt):
            # The free result contradicts what was promised: read again, made to begin with the promise.
            forced = tuple(self._vocabulary.encode(f" {request.prompt}"))
            readings, astray = self._search(heard, [*prompt, *forced], beam)
        best, *others = ((*forced, *tokens) for tokens in readings.tokens)
        unspoken = not forced and guards.nobody_speaks(readings.no_speech, readings.scores[0])
        if unspoken or not self._text(best):
            return None
        if astray:
            return _Said(best, readings.scores[0], astray=True)
        return _Said(best, readings.scores[0], tuple(map(self._text, others)))

    def _search(self, heard: _Heard, prompt: Sequence[int], beam: int) -> tuple[Readings, bool]:
        """Readings, and whether they went astray in what is not the whole window. In that one they are read
        again at once, kept from repeating themselves."""
        most = min(heard.most, POSITIONS - len(prompt))
        readings = self._network.read(heard.encoded, prompt, beam=beam, most=most)
        best = readings.tokens[0]
        astray = len(best) >= most or guards.looped(best, self._vocabulary.decode(best))
        if astray and heard.whole:
            return self._network.read(heard.encoded, prompt, beam=beam, most=most, apart=APART), False
        return readings, astray

    def _text(self, tokens: Sequence[int]) -> str:
        return guards.spoken(self._vocabulary.decode(tokens))

    # --- results ---

    def _transcript(self, said: _Said, heard: _Heard, request: SegmentRequest) -> Transcript:
        text = self._text(said.tokens)
        aligned = self._network.align(heard.encoded, self._start(heard.language), said.tokens, heard.frames)
        pieces = [self._vocabulary.bytes_of(token) for token in said.tokens]
        others = [other for other in dict.fromkeys(said.others) if other and other != text]
        return Transcript(
            text,
            said.tokens,
            math.exp(said.score),
            words_of(pieces, units(text), aligned) if request.words else (),
            tuple(least_of(aligned, span) for span in spans_of(pieces, text.split())),
            tuple(others[:OTHERS]),
            language=heard.language,
            language_conf=heard.sure,
        )


def _begins_with(text: str, prompt: str) -> bool:
    return not prompt or text == prompt or text.startswith(f"{prompt} ")
