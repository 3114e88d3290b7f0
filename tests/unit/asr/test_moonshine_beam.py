"""The beam against all sentences there are, for decoders small enough to list them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from cosyd.asr.moonshine_beam import BeamSearch, Path
from cosyd.asr.moonshine_bias import Bias, Spelling
from cosyd.asr.tokenizer import EOS, Tokenizer

WORDS = ["▁a", "▁b", "▁c", "d", "e"]
VOCABULARY = Tokenizer(
    [b"<unk>", b"<s>", b"</s>", *(bytes([i]) for i in range(256)), *(word.encode() for word in WORDS)]
)
FIRST = 3 + 256
A, B, C, D, E = range(FIRST, FIRST + 5)
SIZE = len(VOCABULARY)
LIVE = [EOS, A, B, C, D, E]
MOST = 4


class Table:
    """A decoder whose logits are any function of the tokens so far; rows of the cache are those tokens."""

    def __init__(self, seed: int, spread: float = 2.0) -> None:
        self._seed = seed
        self._spread = spread
        self.rows: list[int] = []  # of each run

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        rng = np.random.default_rng([self._seed, *tokens])
        logits = np.full(SIZE, -1e12, np.float32)
        logits[LIVE] = rng.normal(0, self._spread, len(LIVE))
        return logits

    def step(self, tokens: Sequence[int], cache: dict[str, np.ndarray]) -> np.ndarray:
        self.rows.append(len(tokens))
        said = cache["said"]
        cache["said"] = np.array([[*row, token] for row, token in zip(said.tolist(), tokens, strict=True)])
        return np.stack([self.logits([int(t) for t in row]) for row in cache["said"]])

    def pick(self, cache: dict[str, np.ndarray], rows: Sequence[int]) -> None:
        cache["said"] = cache["said"][list(rows)]


def nothing() -> dict[str, np.ndarray]:
    return {"said": np.zeros((1, 0), np.int64)}


def log_prob(table: Table, tokens: Sequence[int]) -> float:
    total = 0.0
    for i, token in enumerate(tokens):
        logits = table.logits(tokens[:i]).astype(np.float64)
        total += logits[token] - math.log(np.exp(logits).sum())
    return total


def sentences() -> list[tuple[int, ...]]:
    """All that end by themselves, and all that are cut at ``MOST`` tokens."""
    tokens = [A, B, C, D, E]
    ended = [(*s, EOS) for n in range(MOST) for s in itertools.product(tokens, repeat=n)]
    return [*ended, *itertools.product(tokens, repeat=MOST)]


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_of_all_sentences_in_their_order(seed: int) -> None:
    table = Table(seed)
    best = sorted(sentences(), key=lambda s: -log_prob(table, s))
    found = BeamSearch(1_000, prune=1e6).search(table, Path(), table.logits(()), nothing(), MOST)
    assert found[0].tokens == tuple(token for token in best[0] if token != EOS)
    assert found[0].total == pytest.approx(log_prob(table, best[0]), abs=1e-4)
    totals = [path.total for path in found]
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize("seed", range(5))
def test_one_path_is_greedy(seed: int) -> None:
    table = Table(seed)
    tokens: list[int] = []
    while len(tokens) < MOST and (token := int(table.logits(tokens).argmax())) != EOS:
        tokens.append(token)
    found = BeamSearch(1).search(table, Path(), table.logits(()), nothing(), MOST)
    assert found[0].tokens == tuple(tokens)
    assert len(found[0].scores) == len(tokens)


def test_a_wider_beam_is_never_worse() -> None:
    for seed in range(8):
        table = Table(seed)
        totals = [
            BeamSearch(width).search(table, Path(), table.logits(()), nothing(), MOST)[0].total
            for width in (1, 4, 1_000)
        ]
        assert totals[0] <= totals[2] + 1e-6
        assert totals[1] <= totals[2] + 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_what_is_agreed_of_a_draft_is_what_the_search_finds_itself(seed: int) -> None:
    table = Table(seed, spread=6.0)  # so that some steps have one option only
    search = BeamSearch(4)
    whole = search.search(table, Path(), table.logits(()), nothing(), MOST)[0]
    for draft in (whole.tokens, (*whole.tokens[:2], C, C), (D, D)):
        rows = np.stack([table.logits(draft[:i]) for i in range(len(draft) + 1)])
        path = search.agreed(rows, draft)
        cache = {"said": np.array([path.tokens], np.int64).reshape(1, -1)}
        again = search.search(table, path, rows[len(path.tokens)], cache, MOST)[0]
        assert again.tokens == whole.tokens
        assert again.scores == pytest.approx(whole.scores)


# --- hotwords ------------------------------------------------------------------------------------------


class Script(Table):
    """``a`` then ``c``, unless told otherwise; ``b`` is behind ``a`` by ``gap``."""

    def __init__(self, gap: float) -> None:
        super().__init__(0)
        self._gap = gap

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        logits = np.full(SIZE, -30.0, np.float32)
        if not tokens:
            logits[[A, B]] = 0.0, -self._gap
        elif tokens[-1] == B:
            logits[[D, C]] = -2.0, 0.0
        else:
            logits[C if len(tokens) == 1 else EOS] = 0.0
        return logits


def favour(*phrases: tuple[str, float]) -> Bias:
    return Bias(Spelling(VOCABULARY), phrases)


def say(table: Table, bias: Bias | None, **options: float) -> tuple[int, ...]:
    return BeamSearch(4, bias, **options).search(table, Path(), table.logits(()), nothing(), MOST)[0].tokens


def test_certain_steps_have_one_row() -> None:
    table = Script(20.0)
    BeamSearch(4).search(table, Path(), table.logits(()), nothing(), MOST)
    assert table.rows == [1, 1]


def test_a_phrase_within_its_worth_is_said() -> None:
    assert say(Script(3.0), None) == (A, C)
    assert say(Script(3.0), favour(("bd", 8.0))) == (B, D)
    assert say(Script(5.0), favour(("bd", 4.0))) == (A, C)


def test_a_bonus_lifts_to_the_likeliest_and_no_further() -> None:
    """Paid in full, a phrase would be worth saying until the end."""
    table = Script(3.0)
    best = BeamSearch(4, favour(("bd", 12.0))).search(table, Path(), table.logits(()), nothing(), 30)[0]
    assert best.tokens == (B, D)
    assert best.total <= 1.0


def test_without_its_phrase_a_word_gets_nothing() -> None:
    """What ``b`` was lent for ``bd`` it gives back when it goes on otherwise."""
    table = Script(3.0)
    search = BeamSearch(4, favour(("be", 8.0)))
    paths = search.search(table, Path(), table.logits(()), nothing(), MOST)
    other = next(path for path in paths if path.tokens[:2] == (B, C))
    assert other.total == pytest.approx(log_prob(table, (B, C, EOS)), abs=0.01)


class Steep(Script):
    """``b`` is as likely as ``a``; ``d`` after it is behind by ``gap``."""

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        logits = super().logits(tokens)
        if not tokens:
            logits[B] = 0.0
        elif tokens[-1] == B:
            logits[D] = -self._gap
        return logits


def test_what_a_phrase_does_not_need_at_its_beginning_is_there_for_its_end() -> None:
    assert say(Steep(6.0), favour(("bd", 8.0))) == (B, D)
    assert say(Steep(6.0), favour(("bd", 5.0))) != (B, D)


def test_a_beginning_that_used_all_up_leaves_nothing_for_the_end() -> None:
    """Both gaps together are more than the phrase is worth."""
    table = Script(4.0)
    assert say(table, favour(("bd", 8.0))) == (B, D)  # 4 and 2
    assert say(table, favour(("bd", 5.5))) == (A, C)


class Lost(Table):
    """Says ``a`` for ever; ``b`` and ``c`` are behind by 2."""

    def __init__(self) -> None:
        super().__init__(0)

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        logits = np.full(SIZE, -30.0, np.float32)
        logits[[A, B, C]] = 0.0, -2.0, -2.0
        if len(tokens) == 9:
            logits[EOS] = 30.0
        return logits


def test_a_phrase_is_lifted_once() -> None:
    bias = favour(("b", 3.0), ("c", 3.0))
    table = Lost()
    said = BeamSearch(4, bias).search(table, Path(), table.logits(()), nothing(), 30)[0].tokens
    assert (said.count(B), said.count(C)) == (1, 1)
    assert said.count(A) == 7


def test_a_phrase_that_is_really_said_twice_is_heard_twice() -> None:
    class Twice(Lost):
        def logits(self, tokens: Sequence[int]) -> np.ndarray:
            logits = super().logits(tokens)
            if len(tokens) in (2, 6):
                logits[B] = 3.0
            return logits

    table = Twice()
    search = BeamSearch(4, favour(("b", 3.0)))
    said = search.search(table, Path(), table.logits(()), nothing(), 30)[0].tokens
    assert (said[2], said[6], said.count(B)) == (B, B, 2)


def test_a_text_without_hotwords_is_the_one_without_hotwords() -> None:
    """Phrases that were begun and came to nothing took no place from other paths."""
    bias = favour(("bdd", 9.0), ("bde", 9.0), ("ade", 9.0), ("aed", 9.0))
    without = 0
    for seed in range(60):
        table = Table(seed)
        plain = BeamSearch(3).search(table, Path(), table.logits(()), nothing(), MOST)[0]
        found = BeamSearch(3, bias).search(table, Path(), table.logits(()), nothing(), MOST)[0]
        if found.total == pytest.approx(found.plain):
            without += 1
            assert found.tokens == plain.tokens
    assert without > 10


def test_a_phrase_is_found_beside_as_many_paths_as_the_beam_has() -> None:
    """Six other words are likelier all the way to its last letter, where it alone goes on well."""

    class Late(Table):
        def logits(self, tokens: Sequence[int]) -> np.ndarray:
            logits = np.full(SIZE, -30.0, np.float32)
            if tokens[:1] == [B] or tokens[:1] == (B,):
                logits[D if len(tokens) < 3 else EOS] = 0.0
            elif len(tokens) < 3:
                logits[[A, C, E]] = 0.0
            else:
                logits[[EOS, A]] = 0.0, -0.1
            if not tokens:
                logits[B] = -3.0
            return logits

    table = Late(0)
    assert say(table, favour(("bdd", 4.0))) == (B, D, D)
    assert say(table, favour(("add", 4.0)))[0] != B
