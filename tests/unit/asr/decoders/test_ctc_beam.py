"""CTC prefix beam search against the sum over all alignments, and against itself in batches and chunks."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise, product

import numpy as np
import plain_decoders as plain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.ctc_beam import CtcBeam, CtcBeamState
from cosyd.asr.decoders.ctc_greedy import CtcGreedy
from cosyd.errors import InferenceError


def random_scores(seed: int, frames: int, vocabulary: int, sharp: float = 1.5) -> np.ndarray:
    """Log-probabilities, float32 [frames, vocabulary]; ``sharp``: spread of the logits."""
    logits = np.random.default_rng(seed).normal(size=(frames, vocabulary)) * sharp
    return np.array([plain.log_softmax(row) for row in logits], np.float32).reshape(frames, vocabulary)


def speech_like(seed: int, frames: int, vocabulary: int) -> np.ndarray:
    """Peaks of a frame or two among blanks that are nearly certain."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(frames, vocabulary)) * 1.5
    blank = random.random(frames) < 0.7
    logits[blank, 0] += 14
    logits[~blank, random.integers(1, vocabulary, (~blank).sum())] += 5
    return np.array([plain.log_softmax(row) for row in logits], np.float32).reshape(frames, vocabulary)


def sum_of_alignments(scores: np.ndarray) -> dict[tuple[int, ...], float]:
    """Log-probability of every sequence of tokens, all alignments written out."""
    total: dict[tuple[int, ...], float] = defaultdict(lambda: -np.inf)
    frames, vocabulary = scores.shape
    for path in product(range(vocabulary), repeat=frames):
        tokens = tuple(token for token, _ in groupby(path) if token)
        total[tokens] = float(np.logaddexp(total[tokens], scores[np.arange(frames), path].sum()))
    return total


def decode_whole(decoder: CtcBeam, scores: np.ndarray, graph: ContextGraph | None = None) -> CtcBeamState:
    state = decoder.open(graph)
    decoder.decode(scores[None], [state])
    return state


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 4))
@settings(max_examples=25, deadline=None)
def test_all_scores_are_those_of_all_alignments(seed: int, frames: int, vocabulary: int) -> None:
    scores = random_scores(seed, frames, vocabulary)
    expected = sum_of_alignments(scores)
    decoder = CtcBeam(beam=400, candidates=vocabulary, skip_blank=None)
    found = decoder.n_best(decode_whole(decoder, scores), 1000)
    assert {each.tokens for each in found} == {tokens for tokens, p in expected.items() if p > -np.inf}
    for each in found:
        assert each.score == pytest.approx(expected[each.tokens], abs=1e-4)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


PHRASES = [(1, 2), (2, 3), (3,), (1, 1, 2)]
PHRASE_SCORES = [1.0, 2.0, 0.5, 1.5]


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_hotwords_add_what_the_phrases_are_worth(seed: int, final: bool) -> None:
    scores = random_scores(seed, 5, 4)
    walk = plain.PhraseWalk(PHRASES, PHRASE_SCORES)
    decoder = CtcBeam(beam=400, candidates=4, skip_blank=None)
    state = decode_whole(decoder, scores, ContextGraph(PHRASES, PHRASE_SCORES))
    expected = {}
    for tokens, p in sum_of_alignments(scores).items():
        at, bonus = (), 0.0
        for token in tokens:
            at, boost = walk.step(at, token)
            bonus += boost
        expected[tokens] = p + bonus - (walk.worth[at] if final else 0)
    for each in decoder.n_best(state, 1000, final=final):
        assert each.score == pytest.approx(expected[each.tokens], abs=1e-4)
        assert len(each.boosts) == len(each.tokens)


class Bigrams:
    """A language model that knows the last token."""

    def __init__(self, size: int) -> None:
        self.table = np.random.default_rng(0).normal(size=(size + 1, size + 1))

    def begin(self) -> int:
        return 0

    def step(self, state: int, token: int) -> tuple[int, float]:
        return token, float(self.table[state, token])

    def finish(self, state: int) -> float:
        return float(self.table[state, -1])


def test_language_model_adds_its_scores() -> None:
    scores, model = random_scores(3, 5, 4), Bigrams(4)
    decoder = CtcBeam(beam=250, candidates=4, skip_blank=None, language_model=model)
    state = decode_whole(decoder, scores)
    expected = sum_of_alignments(scores)
    for each in decoder.n_best(state, 1000, final=True):
        chain = (0, *each.tokens)
        bonus = sum(model.table[a, b] for a, b in pairwise(chain))
        bonus += model.table[chain[-1], -1]
        assert each.score == pytest.approx(expected[each.tokens] + bonus, abs=1e-4)


def test_two_names_for_a_blank_that_is_not_the_first_id() -> None:
    scores = random_scores(1, 5, 4)
    moved = np.roll(scores, -1, axis=1)
    ours = CtcBeam(beam=50, candidates=4, skip_blank=None)
    other = CtcBeam(beam=50, candidates=4, skip_blank=None, blank=3)
    expected = [(each.tokens, each.score) for each in ours.n_best(decode_whole(ours, scores), 20)]
    found = [(each.tokens, each.score) for each in other.n_best(decode_whole(other, moved), 20)]
    assert [(tuple(t + 1 for t in tokens), score) for tokens, score in found] == expected


@pytest.mark.parametrize("skip_blank", [None, 0.999])
@pytest.mark.parametrize("graph", [None, ContextGraph([(1, 2, 3), (4,)], 2.0)])
def test_batches_and_chunks_change_nothing(skip_blank: float | None, graph: ContextGraph | None) -> None:
    streams = [speech_like(seed, frames, 12) for seed, frames in enumerate((50, 1, 77, 0, 33))]
    decoder = CtcBeam(beam=6, candidates=5, skip_blank=skip_blank)
    states, done = [decoder.open(graph) for _ in streams], [0] * len(streams)
    random = np.random.default_rng(0)
    while any(at < len(row) for at, row in zip(done, streams, strict=True)):
        members = [i for i in range(len(streams)) if random.random() < 0.7]
        sizes = [min(int(random.integers(0, 8)), len(streams[i]) - done[i]) for i in members]
        chunk = np.full((len(members), 7, 12), -2.5, np.float32)
        for row, i, n in zip(chunk, members, sizes, strict=True):
            row[:n] = streams[i][done[i] : done[i] + n]
            done[i] += n
        decoder.decode(chunk, [states[i] for i in members], sizes)
    for state, scores in zip(states, streams, strict=True):
        expected = decoder.n_best(decode_whole(decoder, scores, graph), 6)
        for found, whole in zip(decoder.n_best(state, 6), expected, strict=True):
            assert (found.tokens, found.frames) == (whole.tokens, whole.frames)
            assert found.score == pytest.approx(whole.score, abs=1e-6)
            assert found.log_probs == pytest.approx(whole.log_probs)
            assert found.boosts == pytest.approx(whole.boosts)
            assert found.trailing_blanks == whole.trailing_blanks == plain.ctc_greedy(scores)[2]


def test_skipping_blanks_changes_next_to_nothing() -> None:
    every, some = CtcBeam(skip_blank=None), CtcBeam(skip_blank=0.999)
    for seed in range(10):
        scores = speech_like(seed, 80, 12)
        expected = every.n_best(decode_whole(every, scores))[0]
        found = some.n_best(decode_whole(some, scores))[0]
        assert (found.tokens, found.frames) == (expected.tokens, expected.frames)
        assert found.score == pytest.approx(expected.score, abs=0.05)


def test_certain_blanks_part_two_equal_tokens() -> None:
    """Blanks of probability 1, whose logarithm is 0, are passed over like others."""
    scores = np.full((5, 3), -80, np.float32)
    scores[[0, 4], 1] = 0
    scores[1:4, 0] = 0
    decoder = CtcBeam(skip_blank=0.99)
    (best,) = decoder.n_best(decode_whole(decoder, scores))
    assert (best.tokens, best.frames) == ((1, 1), (0, 4))


def test_frames_of_sharp_scores_are_those_of_the_greedy_search() -> None:
    for seed in range(10):
        random = np.random.default_rng(seed)
        logits = random.normal(size=(60, 8)) * 0.3
        ids = np.repeat(random.integers(0, 8, 60) * (random.random(60) < 0.5), random.integers(1, 4, 60))[:60]
        logits[np.arange(60), ids] += 9
        scores = np.array([plain.log_softmax(row) for row in logits], np.float32)
        greedy, beam = CtcGreedy(), CtcBeam()
        state = greedy.open()
        greedy.decode(scores[None], [state])
        expected, found = greedy.n_best(state)[0], beam.n_best(decode_whole(beam, scores))[0]
        assert (found.tokens, found.frames) == (expected.tokens, expected.frames)
        assert found.log_probs == pytest.approx(expected.log_probs, abs=0.02)


def test_a_restart_forgets_and_takes_other_hotwords() -> None:
    scores = speech_like(1, 40, 12)
    decoder = CtcBeam()
    graph = ContextGraph([(5, 6)], 3.0)
    again = decoder.restart(decode_whole(decoder, scores), graph)
    decoder.decode(scores[None], [again])
    expected = decoder.n_best(decode_whole(decoder, scores, graph))
    assert decoder.n_best(again) == expected


def test_scores_that_are_no_numbers_change_nothing() -> None:
    scores = speech_like(1, 20, 12)
    decoder = CtcBeam()
    state = decode_whole(decoder, scores)
    before = decoder.n_best(state, 8)
    with pytest.raises(InferenceError, match="stream 0 of the batch"):
        decoder.decode(np.full((1, 3, 12), np.nan, np.float32), [state])
    assert decoder.n_best(state, 8) == before
    assert state.frames_seen == 20
