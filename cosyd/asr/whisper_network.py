"""Whisper's networks on CTranslate2: the only place that imports it, and it does so on first use.

A model is a folder in CTranslate2's format (``model.bin``, ``config.json``, a vocabulary), as its converter
makes it of any Whisper. Weights are brought to 8 bit as they are loaded. What CTranslate2 raises becomes
ModelDamaged (a file it cannot load) or InferenceError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import InferenceError, ModelDamaged, ModelMissing

MODEL_FILE = "model.bin"
PRECISION = "int8"
CENTRE_S = 0.02  # between two positions of the encoder's output

T = TypeVar("T")


@dataclass(frozen=True)
class Readings:
    """What a search ended with: tokens after the prompt without the end's, the likeliest reading first; for
    each the mean log probability of a token, the end's included; the probability that nobody speaks."""

    tokens: tuple[tuple[int, ...], ...]
    scores: tuple[float, ...]
    no_speech: float


@dataclass(frozen=True)
class Alignment:
    """For a text of n tokens: the probability of each [n]; when each begins, and the last one ends, in
    seconds from where the audio begins [n + 1]."""

    probs: NDArray[np.float64]
    times_s: NDArray[np.float64]


class WhisperNetwork:
    """A loaded model. One thread at a time."""

    def __init__(self, model: Any, library: Any, name: str) -> None:
        self._model = model
        self._library = library
        self._name = name
        self.multilingual: bool = model.is_multilingual
        self.mels: int = model.n_mels

    @classmethod
    def load(cls, folder: Path, *, name: str, threads: int = 1) -> WhisperNetwork:
        """Raises ModelMissing (also where CTranslate2 is not installed) or ModelDamaged."""
        if not (folder / MODEL_FILE).is_file():
            raise ModelMissing(f"{folder}: no {MODEL_FILE} there; run: cosyd models pull {name}")
        try:
            import ctranslate2
        except ImportError as error:
            raise ModelMissing(
                f"{name} runs on CTranslate2, which is not installed; run: {_INSTALL}"
            ) from error
        try:
            model = ctranslate2.models.Whisper(
                str(folder), device="cpu", compute_type=PRECISION, inter_threads=1, intra_threads=threads
            )
            return cls(model, ctranslate2, name)
        except (RuntimeError, ValueError, AttributeError) as error:
            raise ModelDamaged(f"{folder}: not a Whisper model of CTranslate2's: {_line(error)}") from error

    @property
    def runs_on(self) -> str:
        return f"{PRECISION} networks, CTranslate2 {self._library.__version__}"

    def encode(self, features: NDArray[np.float32]) -> Any:
        """float32 [mels, frames], 30 s or less -> what the other methods take."""
        batch = np.ascontiguousarray(features[None])
        return self._run("encoder", lambda: self._model.encode(self._library.StorageView.from_array(batch)))

    def languages(self, encoded: Any) -> list[tuple[str, float]]:
        """Names such as ``<|en|>`` with their probabilities, the likeliest first; of models of many."""
        found: list[tuple[str, float]] = self._run(
            "language detection", lambda: self._model.detect_language(encoded)
        )[0]
        return found

    def read(self, encoded: Any, prompt: Sequence[int], *, beam: int, most: int, apart: int = 0) -> Readings:
        """Search what follows ``prompt``, ``most`` tokens at the most, along ``beam`` paths. ``apart``: no
        run of so many tokens comes twice; 0: as it may be."""
        result = self._run(
            "decoder",
            lambda: self._model.generate(
                encoded,
                [list(prompt)],
                beam_size=beam,
                num_hypotheses=beam,
                max_length=len(prompt) + most,
                no_repeat_ngram_size=apart,
                return_scores=True,
                return_no_speech_prob=True,
            ),
        )[0]
        tokens = tuple(tuple(reading) for reading in result.sequences_ids)
        # CTranslate2 divides by the number of tokens without the end's, whose probability it counts.
        scores = tuple(
            score * len(reading) / (len(reading) + 1)
            for score, reading in zip(result.scores, tokens, strict=True)
        )
        return Readings(tokens, scores, result.no_speech_prob)

    def align(self, encoded: Any, start: Sequence[int], text: Sequence[int], frames: int) -> Alignment:
        """Where in the audio a text is. ``start``: what comes before it; ``frames`` of features are audio."""
        result = self._run(
            "alignment", lambda: self._model.align(encoded, list(start), [list(text)], frames)
        )[0]
        pairs = np.asarray(result.alignments, np.int64).reshape(-1, 2)
        times_s = np.full(len(text) + 1, frames // 2 * CENTRE_S)
        # The path visits tokens in order, each at least once; the first visit is when it begins.
        numbers, firsts = np.unique(pairs[:, 0], return_index=True)
        inside = numbers <= len(text)
        times_s[numbers[inside]] = pairs[firsts[inside], 1] * CENTRE_S
        return Alignment(np.asarray(result.text_token_probs, np.float64), times_s)

    def close(self) -> None:
        """Give the memory back. Idempotent."""
        self._model.unload_model()

    def _run(self, what: str, step: Callable[[], T]) -> T:
        try:
            return step()
        except (RuntimeError, ValueError) as error:
            raise InferenceError(f"{self._name}: {what} failed on the CPU: {_line(error)}") from error


_INSTALL = "pip install cosyd[whisper]"


def _line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
