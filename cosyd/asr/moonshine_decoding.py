"""From what Moonshine's networks make of a piece of audio to tokens: three ways.

A *final* follows several paths from its beginning (``moonshine_beam``). A *quick* result, to be shown for a
moment, begins with what was said before and follows paths from the last word of that on only: what a single
path gets wrong at the end of the audio, the next result keeps, for it is nearly as likely then. On 12 clips
of LibriSpeech train-clean-100, half of them in noise, that grew by 0.43 s at a time, so many words were not
in the final that hears all: of the last but one 6.6 %, of those two before it 4.1 and 3.2 %, of the words
before 3.3 %; with one path 13.6, 12.0, 8.7 and 8.1 %. A result takes 20.9 instead of 18.8 ms (one core of an
EPYC with VNNI). With ``QUICK_DOUBT`` 2 and ``QUICK_PRUNE`` 4 it is 21.7 ms and the same words; from six
tokens before the end on 2.9 % of the words further back are wrong, and it is 28.3 ms.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.loops import cut_loop
from cosyd.asr.moonshine_beam import BeamSearch, Path
from cosyd.asr.moonshine_decoder import log_prob
from cosyd.asr.moonshine_draft import Begun
from cosyd.asr.moonshine_networks import Cache, Decoder
from cosyd.asr.tokenizer import EOS, Tokenizer

log = logging.getLogger(__name__)

Array = NDArray[Any]

SAID = "said"  # in a decoder's memory: the newest result
QUICK_PATHS = 4
QUICK_PRUNE = 3.0  # nats behind the best: such a path is given up
QUICK_DOUBT = 1.5  # ... of a token's second choice: from there on several paths are followed


@dataclass(frozen=True)
class Said:
    """A finished result: tokens, the log probability of each, and a cache that has the audio's keys."""

    tokens: tuple[int, ...]
    scores: tuple[float, ...]
    cache: Cache
    others: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class _Checked:
    """What decoding begins with, run through the network: of its first ``known`` tokens the ``scores`` are
    known; row ``i`` of ``logits`` predicts token ``known + i``; ``cache`` is of all."""

    known: int
    scores: tuple[float, ...]
    logits: Array
    cache: Cache


class Decoding:
    """``vocabulary`` and ``name`` of the model; without a state."""

    def __init__(self, vocabulary: Tokenizer, name: str) -> None:
        self._vocabulary = vocabulary
        self._name = name
        self._quick = BeamSearch(QUICK_PATHS, prune=QUICK_PRUNE)
        self._undoubted = BeamSearch(QUICK_PATHS, prune=QUICK_DOUBT)

    def greedy(self, decoder: Decoder, begun: Begun, most: int) -> Said:
        """Along one path."""
        checked = _checked(decoder, begun)
        rest = begun.after(checked.known)
        agreed = rest.agreed(checked.logits)
        scores = [*checked.scores, *_scores(checked.logits, rest.tokens[:agreed])]
        tokens, cache, logits = list(begun.tokens[: len(scores)]), checked.cache, checked.logits[agreed]
        if agreed < len(rest.tokens):
            decoder.shorten(cache, len(tokens))
        mask = self._first_mask(len(tokens), begun.forced)
        while len(tokens) < most:
            token = int((logits if mask is None else np.where(mask, logits, -np.inf)).argmax())
            mask = None
            if token == EOS:
                break
            scores.append(log_prob(logits, token))
            tokens.append(token)
            if cut := cut_loop(tokens):
                log.info("%s repeated itself; %d tokens cut off", self._name, cut)
                break
            logits = decoder.step([token], cache)[0]
        said = Said(tuple(tokens), tuple(scores[: len(tokens)]), cache)
        decoder.memory[SAID] = said
        return said

    def followed(self, decoder: Decoder, begun: Begun, most: int) -> Said:
        """Along one path as far as what was said stays, from its last word on along several."""
        checked = _checked(decoder, begun)
        rest = begun.after(checked.known)
        kept = min(rest.agreed(checked.logits), max(rest.forced, rest.lenient))
        scores = (*checked.scores, *_scores(checked.logits, rest.tokens[:kept]))
        total = sum(scores)
        path = Path(begun.tokens[: len(scores)], scores, total, total)
        mask = self._first_mask(len(scores), begun.forced)
        path = self._undoubted.agreed(checked.logits[kept:], rest.tokens[kept:], mask, path)
        cache, tokens = checked.cache, len(path.tokens)
        if tokens < len(begun.tokens):
            decoder.shorten(cache, tokens)
        mask = self._first_mask(tokens, begun.forced)
        logits = checked.logits[tokens - checked.known]
        best, *others = self._quick.search(decoder, path, logits, cache, most, mask)
        decoder.pick(cache, [0])  # all rows have what the search began with
        decoder.memory[SAID] = Said(path.tokens, path.scores, cache)
        return Said(best.tokens, best.scores, cache, tuple(other.tokens for other in others))

    def beamed(self, decoder: Decoder, begun: Begun, most: int, search: BeamSearch) -> Said:
        """What a search finds; the tokens that it begins with only save time, but for those forced."""
        first, forced = begun.tokens, begun.forced
        logits, cache = decoder.begin(first)
        path = search.forced(logits, first[:forced])
        path = search.agreed(logits[forced:], first[forced:], self._first_mask(forced, forced), path)
        tokens = len(path.tokens)
        if tokens < len(first):
            decoder.shorten(cache, tokens)
        mask = self._first_mask(tokens, begun.forced)
        best, *others = search.search(decoder, path, logits[tokens], cache, most, mask)
        return Said(best.tokens, best.scores, cache, tuple(other.tokens for other in others))

    def _first_mask(self, tokens: int, forced: int) -> Array | None:
        """Of what may come after so many tokens; None: any. What was forced ends with a word."""
        return self._vocabulary.starts_word if tokens == forced > 0 else None


def _checked(decoder: Decoder, begun: Begun) -> _Checked:
    said: Said | None = decoder.memory.get(SAID)
    known = 0 if said is None else begun.known(said.tokens)
    if said is None or not known:
        return _Checked(0, (), *decoder.begin(begun.tokens))
    return _Checked(known, said.scores[:known], *decoder.resume(said.cache, known, begun.tokens))


def _scores(logits: Array, tokens: Sequence[int]) -> list[float]:
    return [log_prob(row, token) for row, token in zip(logits, tokens, strict=False)]
