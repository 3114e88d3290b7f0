"""Beam search for Moonshine's decoder, with or without hotwords.

All paths of a beam have the same number of tokens, so one run of the network carries all of them one token
further; the encoder's keys and values are not copied, the network spreads them over the batch itself. Four
paths cost an eighth more than one, eight two fifths more (tiny-en on one core). Where one path is left,
because nothing else is within ``PRUNE`` of it, a step is a greedy step.

With hotwords the score of a path is its log probability plus what it was lent for its phrases (shallow
fusion, ``moonshine_bias``), taken back where a phrase is not completed. But a token is *lifted, not paid*: a
bonus makes up for what the token is behind the likeliest one, and only ``PAID`` of it goes beyond. A phrase
that was heard well gets next to nothing, so saying it again and again brings nothing. With bonuses paid in
full a decoder that has lost the thread says its hotwords over and over. What a phrase did not need at its
beginning it may need at its end: its worth is a budget, handed out letter by letter and kept until it is
complete. And a phrase is lifted once: where noise tells a decoder nothing, any word will do, and two
hotwords in turn would do for ever.

What is only likely because of a phrase takes no place from what is likely anyway: the paths that a search
without hotwords has are followed in any case, by their plain log probabilities, and ``FAVOURED`` more for
the sake of phrases, each until it has no phrase any more. So a text without a hotword in it is the one that
it is without hotwords (but for the last bits of products in 8 bits, which depend on all rows of a step).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.loops import cut_loop
from cosyd.asr.moonshine_bias import Bias
from cosyd.asr.tokenizer import EOS

Array = NDArray[Any]
Cache = Any  # the decoder's own; it is only handed back

PRUNE = 6.0  # nats behind the best: such a path hardly ever wins
# In the orders and the other speech of ``moonshine_hotwords.DEFAULT_SCORE``, with 3 nats a token: 319 of 388
# phrases found and 1 made up with 4, 316 and 10 when phrases took places of the beam.
FAVOURED = 4
PAID = 0.05  # share of a bonus beyond what makes up for the token; from 0.25 on, repeating hotwords pays


class Steps(Protocol):
    """What is needed of the decoder: one more token for each row of its cache, and rows picked from it."""

    def step(self, tokens: Sequence[int], cache: Cache) -> Array: ...

    def pick(self, cache: Cache, rows: Sequence[int]) -> None: ...


@dataclass(frozen=True)
class Path:
    """Tokens after BOS and the log probability of each; of a lifted one, with what it was lifted by.

    ``total``: what paths are compared by; ``plain``: without bonuses. ``state``: in the bias; ``lent``: bonus
    for a phrase that is not complete yet. ``lifted``: the states in which phrases were complete that had got
    a bonus. ``favoured``: there for the sake of a phrase, a search without hotwords would not have it.
    """

    tokens: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    total: float = 0.0
    plain: float = 0.0
    state: int = Bias.start
    lent: float = 0.0
    lifted: frozenset[int] = frozenset()
    favoured: bool = False


class _Option(NamedTuple):
    """A possible step: of the path in this row, with this token."""

    total: float
    row: int
    token: int
    score: float
    bonus: float
    plain: float
    favoured: bool


class BeamSearch:
    """``width`` paths at most, with a ``bias`` (None: no hotwords) ``FAVOURED`` more."""

    def __init__(
        self, width: int, bias: Bias | None = None, *, prune: float = PRUNE, paid: float = PAID
    ) -> None:
        self._width = width
        self._bias = bias
        self._prune = prune
        self._paid = paid

    def agreed(
        self, logits: Array, tokens: Sequence[int], first: Array | None = None, path: Path | None = None
    ) -> Path:
        """``path`` and as much of these tokens as a search would have found without having any other path.

        Row ``i`` of ``logits`` predicts token ``i``; ``first``: the tokens that may come first.
        """
        path = path or Path()
        for row, token in zip(logits, tokens, strict=False):
            options = self._options([path], row[None], first)
            first = None
            if len(options) != 1 or options[0].token != token or token == EOS:
                break
            path = self._grown(path, options[0])
        return path

    def forced(self, logits: Array, tokens: Sequence[int]) -> Path:
        """The path of these tokens, whatever their probabilities."""
        path = Path()
        for row, token in zip(logits, tokens, strict=False):
            score = float(row[token]) - _log_sum(row)
            bonus = float(self._fused(row, path)[token] - row[token])
            totals = path.total + score + bonus, path.plain + score
            path = self._grown(path, _Option(totals[0], 0, token, score, bonus, totals[1], path.favoured))
        return path

    def search(
        self,
        steps: Steps,
        path: Path,
        logits: Array,
        cache: Cache,
        most: int,
        first: Array | None = None,
    ) -> list[Path]:
        """All that the beam ends with, the best first; at least one.

        ``logits`` [vocabulary] are of what follows ``path``, ``cache`` is its; ``first``: the tokens that may
        come next. No path gets longer than ``most`` tokens.
        """
        alive, ended = [path], list[Path]()
        rows = np.asarray(logits)[None]
        while len(alive[0].tokens) < most:
            options = self._options(alive, rows, first, ended)
            first = None
            alive, parents = self._advance(alive, options, ended)
            # A total hardly ever rises: a path that is behind stays behind.
            if not alive or alive[0].total <= _best(ended):
                alive = []
                break
            if parents != list(range(len(rows))):
                steps.pick(cache, parents)
            rows = steps.step([grown.tokens[-1] for grown in alive], cache)
        return sorted([*ended, *alive], key=lambda found: (-found.total, -found.plain))

    def _advance(
        self, alive: Sequence[Path], options: Sequence[_Option], ended: list[Path]
    ) -> tuple[list[Path], list[int]]:
        """The paths that go on and the rows that they come from; those that end join ``ended``."""
        kept: list[Path] = []
        parents: list[int] = []
        for option in options:
            before = alive[option.row]
            if option.token == EOS:
                ended.append(_ended(before.tokens, before.scores, option))
                continue
            path = self._grown(before, option)
            tokens = list(path.tokens)
            if cut_loop(tokens):
                ended.append(_ended(tokens, path.scores[: len(tokens)], option))
                continue
            kept.append(path)
            parents.append(option.row)
        return kept, parents

    def _grown(self, path: Path, option: _Option) -> Path:
        sure = option.score + max(0.0, option.bonus)
        tokens, scores = (*path.tokens, option.token), (*path.scores, sure)
        grown = Path(tokens, scores, option.total, option.plain, favoured=option.favoured)
        if self._bias is None:
            return grown
        state, lent, lifted = _phrases(self._bias, path, option)
        return replace(grown, state=state, lent=lent, lifted=lifted)

    def _options(
        self, alive: Sequence[Path], logits: Array, first: Array | None, ended: Sequence[Path] = ()
    ) -> list[_Option]:
        """The steps to go on with, the best first: the best ``width`` of those that a search without hotwords
        has as well, where they are within ``prune`` of the best, and some for the sake of phrases."""
        options = [
            option
            for row, path in enumerate(alive)
            for option in self._steps_of(path, row, logits[row], first)
        ]
        own = sorted((option for option in options if not option.favoured), key=lambda option: -option.plain)
        plain = [*(option.plain for option in own[:1]), *(path.plain for path in ended if not path.favoured)]
        least = max(plain, default=-math.inf) - self._prune
        kept = [option for option in own[: self._width] if option.plain >= least]
        if self._bias is None:
            return kept
        others = [*own[len(kept) :], *(option for option in options if option.favoured)]
        best = max(_best(ended), *(option.total for option in options))
        kept += self._for_phrases(self._bias, alive, others, best)
        return sorted(kept, key=lambda option: -option.total)

    def _for_phrases(
        self, bias: Bias, alive: Sequence[Path], options: list[_Option], best: float
    ) -> Iterator[_Option]:
        """The best of the steps that have a phrase or are in one."""
        left = FAVOURED
        for option in sorted(options, key=lambda option: -option.total):
            if not left or option.total < best - self._prune:
                return
            if _in_phrase(bias, alive[option.row], option):
                left -= 1
                yield option._replace(favoured=True)

    def _steps_of(self, path: Path, row: int, logits: Array, first: Array | None) -> list[_Option]:
        """The likeliest tokens after a path, with hotwords and without."""
        fused = self._fused(logits, path)
        tokens = self._likeliest(fused, first)
        if self._bias is not None:
            tokens = np.union1d(tokens, self._likeliest(logits, first))
        scores = logits[tokens].astype(np.float64) - _log_sum(logits)
        bonuses = fused[tokens].astype(np.float64) - logits[tokens]
        columns = (tokens.tolist(), scores.tolist(), bonuses.tolist())
        return [
            _Option(path.total + score + bonus, row, token, score, bonus, path.plain + score, path.favoured)
            for token, score, bonus in zip(*columns, strict=True)
        ]

    def _likeliest(self, logits: Array, first: Array | None) -> Array:
        """``width`` tokens at most, those within ``prune`` of the best, the best first."""
        if first is not None:
            logits = np.where(first, logits, -np.inf)
        tokens = np.flatnonzero(logits >= logits.max() - self._prune)
        return np.asarray(tokens[np.argsort(-logits[tokens], kind="stable")[: self._width]])

    def _fused(self, logits: Array, path: Path) -> Array:
        """Logits of what follows a path, with the bonuses."""
        if self._bias is None:
            return logits
        bias = self._bias
        # What a phrase did not need at its beginning is there for its rest, until it is complete.
        owed = np.where(bias.ends, max(0.0, path.lent - bias.settled(path.state)), path.lent)
        allowed = bias.budget(path.state) - owed.astype(np.float32)
        lifted = np.minimum(allowed, logits.max() - logits + self._paid * allowed)
        change = np.where(allowed > 0, lifted, allowed)
        for state in path.lifted:
            again = bias.following(path.state) == state
            change[again] = -owed[again]
        return np.asarray(logits + change)


class _Phrases(NamedTuple):
    """As of ``Path``, after a step."""

    state: int
    lent: float
    lifted: frozenset[int]


def _phrases(bias: Bias, path: Path, option: _Option) -> _Phrases:
    state = bias.next(path.state, option.token)
    before = path.lent
    if bias.ends[option.token]:
        before = max(0.0, before - bias.settled(path.state))
    lent = max(0.0, before + option.bonus) if bias.lent(state) else 0.0
    complete = lent > 0 and bias.settled(state) > 0
    return _Phrases(state, lent, path.lifted | {state} if complete else path.lifted)


def _in_phrase(bias: Bias, path: Path, option: _Option) -> bool:
    """Whether a step has a phrase or is in one."""
    if option.token == EOS:
        return bool(path.lifted) or (path.lent > 0 and bias.settled(path.state) > 0)
    phrases = _phrases(bias, path, option)
    return phrases.lent > 0 or bool(phrases.lifted)


def _ended(tokens: Sequence[int], scores: Sequence[float], option: _Option) -> Path:
    return Path(tuple(tokens), tuple(scores), option.total, option.plain, favoured=option.favoured)


def _best(paths: Sequence[Path]) -> float:
    return max((path.total for path in paths), default=-math.inf)


def _log_sum(logits: Array) -> float:
    top = logits.max()
    return float(top) + math.log(float(np.exp(logits - top).sum()))
