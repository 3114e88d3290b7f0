"""The same searches written down naively, one stream, one frame and one hypothesis at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

Phrase = tuple[int, ...]


def log_softmax(row: np.ndarray) -> np.ndarray:
    shifted = row.astype(np.float64) - row.max()
    return shifted - math.log(np.exp(shifted).sum())


def ctc_greedy(log_probs: np.ndarray, blank: int = 0) -> tuple[list[int], list[int], int]:
    """(tokens, frames, trailing blanks) of [frames, vocabulary]."""
    tokens: list[int] = []
    frames: list[int] = []
    last, trailing = -1, 0
    for frame, row in enumerate(log_probs):
        best = int(row.argmax())
        trailing = trailing + 1 if best == blank else 0
        if best not in (blank, last):
            tokens.append(best)
            frames.append(frame)
        last = best
    return tokens, frames, trailing


class PhraseWalk:
    """Boosts of a list of phrases by definition: the longest suffix of what was said that begins a phrase."""

    def __init__(self, phrases: Sequence[Phrase], scores: Sequence[float], strict: bool = False) -> None:
        self.phrases = dict(zip(phrases, scores, strict=True))
        self.strict = strict
        self.worth: dict[Phrase, float] = {(): 0.0}
        for length in range(1, max(map(len, phrases)) + 1):
            for phrase in phrases:
                if len(phrase) >= length:
                    begin = phrase[:length]
                    best = max(s for p, s in self.phrases.items() if p[:length] == begin)
                    self.worth[begin] = self.worth[begin[:-1]] + best

    def _longest(self, said: Phrase) -> Phrase:
        return next(said[i:] for i in range(len(said) + 1) if said[i:] in self.worth)

    def _endings(self, said: Phrase) -> list[Phrase]:
        return [said[i:] for i in range(len(said)) if said[i:] in self.phrases]

    def step(self, said: Phrase, token: int) -> tuple[Phrase, float]:
        """(matched beginning, boost) after one token."""
        now = self._longest((*said, token))
        boost = self.worth[now] - self.worth[said]
        endings = self._endings(now)
        if not endings:
            return now, boost
        if self.strict:
            return now, boost + sum(self.worth[phrase] for phrase in endings)
        return (), boost + self.worth[endings[0]] - self.worth[now]


@dataclass
class RandomTransducer:
    """A stateless decoder and a joiner with random weights, in NumPy."""

    vocabulary: int
    context_size: int = 2
    width: int = 12
    unk: int | None = None
    seed: int = 0
    calls: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        self._embed = random.normal(size=(self.context_size, self.vocabulary + 1, self.width)) * 1.5
        self._out = random.normal(size=(self.width, self.vocabulary)) * 1.2
        self._out[:, 0] *= 0.5
        self._blank = np.zeros(self.vocabulary)
        self._blank[0] = 2.0

    def run_decoder(self, contexts: np.ndarray) -> np.ndarray:
        self.calls.append(("decoder", len(contexts)))
        slots = np.arange(self.context_size)
        return self._embed[slots, contexts].sum(axis=1).astype(np.float32)

    def run_joiner(self, encoder_out: np.ndarray, decoder_out: np.ndarray) -> np.ndarray:
        self.calls.append(("joiner", len(encoder_out)))
        hidden = np.tanh(encoder_out + decoder_out).astype(np.float64)
        return (hidden @ self._out + self._blank).astype(np.float32)


def transducer_greedy(
    networks: RandomTransducer, encoder_out: np.ndarray, penalty: float = 0.0, temperature: float = 1.0
) -> tuple[list[int], list[int], list[float], int]:
    """(tokens, frames, log-probabilities, trailing blanks) of [frames, width]."""
    context = [-1] * (networks.context_size - 1) + [0]
    tokens: list[int] = []
    frames: list[int] = []
    log_probs: list[float] = []
    trailing = 0
    for frame, row in enumerate(encoder_out):
        out = networks.run_decoder(np.array([(context + tokens)[-networks.context_size :]]))
        logits = networks.run_joiner(row[None], out)[0]
        logits[0] -= penalty
        best = int(logits.argmax())
        if best in (0, networks.unk):
            trailing += 1
            continue
        trailing = 0
        tokens.append(best)
        frames.append(frame)
        log_probs.append(float(log_softmax(logits / temperature)[best]))
    return tokens, frames, log_probs, trailing
