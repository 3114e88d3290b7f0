"""Greedy searches against naive ones: batches, chunks, streams that join and leave."""

from __future__ import annotations

import numpy as np
import plain_decoders as plain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.ctc_greedy import CtcGreedy
from cosyd.asr.decoders.hypothesis import StreamDecoder
from cosyd.asr.decoders.transducer_greedy import TransducerGreedy


def feed_in_turns(decoder: StreamDecoder, streams: list[np.ndarray], seed: int) -> list:
    """Every stream's scores in random chunks, those of different streams in random batches; the states."""
    random = np.random.default_rng(seed)
    states = [decoder.open() for _ in streams]
    done = [0] * len(streams)
    while any(at < len(scores) for at, scores in zip(done, streams, strict=True)):
        members = [i for i in range(len(streams)) if random.random() < 0.6]
        sizes = [int(random.integers(0, 7)) for _ in members]
        sizes = [min(n, len(streams[i]) - done[i]) for n, i in zip(sizes, members, strict=True)]
        chunk = np.full((len(members), max(sizes, default=0), streams[0].shape[1]), np.nan, np.float32)
        for row, i, n in zip(chunk, members, sizes, strict=True):
            row[:n] = streams[i][done[i] : done[i] + n]
            row[n:] = random.normal(size=row[n:].shape) * 9
        decoder.decode(chunk, [states[i] for i in members], sizes)
        for i, n in zip(members, sizes, strict=True):
            done[i] += n
    return states


def ctc_scores(random: np.random.Generator, frames: int, vocabulary: int) -> np.ndarray:
    """Log-probabilities with runs and blanks, as a CTC network gives them."""
    logits = random.normal(size=(frames, vocabulary))
    ids = np.repeat(random.integers(0, vocabulary, frames), random.integers(1, 4, frames))[:frames]
    logits[np.arange(frames), ids] += 4
    return np.array([plain.log_softmax(row) for row in logits], np.float32).reshape(frames, vocabulary)


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_ctc_tokens_are_those_of_the_definition(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    streams = [ctc_scores(random, int(random.integers(0, 40)), 5) for _ in range(count)]
    decoder = CtcGreedy()
    for state, scores in zip(feed_in_turns(decoder, streams, seed), streams, strict=True):
        (best,) = decoder.n_best(state)
        expected = plain.ctc_greedy(scores)
        assert (list(best.tokens), list(best.frames), best.trailing_blanks) == expected
        assert state.frames_seen == len(scores)


def test_ctc_log_prob_is_the_best_of_a_run_across_chunks() -> None:
    rows = np.log(np.array([[0.4, 0.6], [0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.45, 0.55]], np.float32))
    for cut in range(6):
        decoder = CtcGreedy()
        state = decoder.open()
        decoder.decode(rows[None, :cut], [state])
        decoder.decode(rows[None, cut:], [state])
        (best,) = decoder.n_best(state)
        assert best.tokens == (1, 1)
        assert best.frames == (0, 4)
        assert np.exp(best.log_probs) == pytest.approx([0.9, 0.55])
        assert best.score == pytest.approx(np.log(0.9 * 0.55))


def test_ctc_blank_may_be_any_id() -> None:
    rows = np.log(np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]], np.float32))
    decoder = CtcGreedy(blank=2)
    state = decoder.open()
    decoder.decode(rows[None], [state])
    assert decoder.n_best(state)[0].tokens == (0, 0)


@pytest.mark.parametrize("look_ahead", [1, 2, 4, 50])
@pytest.mark.parametrize("penalty", [0.0, 1.5])
@pytest.mark.parametrize("context_size", [1, 2])
def test_transducer_tokens_are_those_of_the_definition(
    look_ahead: int, penalty: float, context_size: int
) -> None:
    networks = plain.RandomTransducer(vocabulary=9, context_size=context_size, unk=2, seed=context_size)
    random = np.random.default_rng(7)
    streams = [random.normal(size=(n, networks.width)).astype(np.float32) for n in (0, 1, 33, 60, 47)]
    decoder = TransducerGreedy(networks, blank_penalty=penalty, temperature=2.0, look_ahead=look_ahead)
    emitted = 0
    for state, scores in zip(feed_in_turns(decoder, streams, 3), streams, strict=True):
        (best,) = decoder.n_best(state)
        tokens, frames, log_probs, trailing = plain.transducer_greedy(networks, scores, penalty, 2.0)
        assert (list(best.tokens), list(best.frames), best.trailing_blanks) == (tokens, frames, trailing)
        assert best.log_probs == pytest.approx(log_probs, abs=1e-4)
        emitted += len(tokens)
    assert emitted > 15


def test_transducer_goes_on_from_its_last_tokens() -> None:
    networks = plain.RandomTransducer(vocabulary=9)
    scores = np.random.default_rng(1).normal(size=(1, 60, networks.width)).astype(np.float32) * np.float32(
        1.5
    )
    decoder = TransducerGreedy(networks)
    whole, cut = decoder.open(), decoder.open()
    decoder.decode(scores, [whole])
    decoder.decode(scores[:, :30], [cut])
    first = decoder.n_best(cut)[0].tokens
    assert first
    cut = decoder.restart(cut)
    assert decoder.n_best(cut)[0].tokens == ()
    decoder.decode(scores[:, 30:], [cut])
    (rest,) = decoder.n_best(cut)
    assert first + rest.tokens == decoder.n_best(whole)[0].tokens
    assert rest.frames[0] < 30
    silent = decoder.restart(decoder.restart(cut))
    assert silent.context.tolist() == [-1, 0]


def test_decoder_runs_only_for_new_contexts() -> None:
    networks = plain.RandomTransducer(vocabulary=9)
    scores = np.random.default_rng(1).normal(size=(1, 60, networks.width)).astype(np.float32)
    decoder = TransducerGreedy(networks)
    for _ in range(2):
        decoder.decode(scores, [decoder.open()])
    first = sum(n for which, n in networks.calls if which == "decoder")
    decoder.decode(scores, [decoder.open()])
    assert sum(n for which, n in networks.calls if which == "decoder") == first


def test_hotwords_are_refused_by_greedy_searches() -> None:
    graph = ContextGraph([(1,)], 1.0)
    for decoder in (CtcGreedy(), TransducerGreedy(plain.RandomTransducer(4))):
        with pytest.raises(ValueError, match="beam search"):
            decoder.open(graph)
        with pytest.raises(ValueError, match="beam search"):
            decoder.restart(decoder.open(), graph)


def test_sizes_must_fit() -> None:
    decoder = CtcGreedy()
    with pytest.raises(ValueError, match="for 1 streams"):
        decoder.decode(np.zeros((2, 3, 4), np.float32), [decoder.open()])
    with pytest.raises(ValueError, match=r"lengths \[4\]"):
        decoder.decode(np.zeros((1, 3, 4), np.float32), [decoder.open()], [4])
