"""The automaton of hotwords against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_decoders import PhraseWalk

from cosyd.asr.decoders.context_graph import ROOT, ContextGraph

TOKENS = st.integers(0, 4)
PHRASES = st.lists(st.lists(TOKENS, min_size=1, max_size=4).map(tuple), min_size=1, max_size=6, unique=True)
SCORES = st.sampled_from([0.5, 1.0, 1.5, 2.25])


def walk(graph: ContextGraph, tokens: list[int]) -> tuple[list[float], int]:
    """Boost of each token, and the state after the last."""
    states, boosts = np.zeros(1, np.int64), []
    for token in tokens:
        states, boost = graph.step(states, np.array([token]))
        boosts.append(float(boost[0]))
    return boosts, int(states[0])


@settings(max_examples=50, deadline=None)
@given(PHRASES, st.data(), st.lists(st.integers(0, 6), max_size=30), st.booleans())
def test_steps_are_those_of_the_definition(
    phrases: list[tuple[int, ...]], data: st.DataObject, said: list[int], strict: bool
) -> None:
    scores = data.draw(st.lists(SCORES, min_size=len(phrases), max_size=len(phrases)))
    graph = ContextGraph(phrases, scores, strict=strict)
    plain = PhraseWalk(phrases, scores, strict=strict)
    expected, at = [], ()
    for token in said:
        at, boost = plain.step(at, token)
        expected.append(boost)
    boosts, state = walk(graph, said)
    assert boosts == pytest.approx(expected, abs=1e-5)
    assert graph.finalize(np.array([state]))[0] == pytest.approx(-plain.worth[at], abs=1e-5)


@settings(max_examples=50, deadline=None)
@given(PHRASES, st.lists(st.integers(0, 6), max_size=20))
def test_an_unfinished_phrase_costs_and_earns_nothing(
    phrases: list[tuple[int, ...]], said: list[int]
) -> None:
    """All that was earned without a complete phrase is paid back in the end."""
    graph = ContextGraph(phrases, 1.5)
    boosts, state = walk(graph, said)
    whole = any(tuple(said[i : i + len(p)]) == p for p in phrases for i in range(len(said)))
    total = sum(boosts) + float(graph.finalize(np.array([state]))[0])
    assert (total > 1e-4) if whole else total == pytest.approx(0, abs=1e-5)


@settings(max_examples=50, deadline=None)
@given(PHRASES, st.lists(st.integers(0, 6), max_size=12), st.integers(3, 9))
def test_bias_is_the_step_of_every_token(
    phrases: list[tuple[int, ...]], said: list[int], vocabulary: int
) -> None:
    graph = ContextGraph(phrases, 1.5)
    _, state = walk(graph, said)
    states = np.full(vocabulary, state)
    _, boosts = graph.step(states, np.arange(vocabulary))
    assert graph.bias(states[:2], vocabulary)[1] == pytest.approx(boosts)


def test_a_batch_steps_like_its_members() -> None:
    graph = ContextGraph([(1, 2, 3), (2, 3), (3, 1)], [1.0, 2.0, 3.0])
    states = np.array([[0, 1], [2, 4]])
    tokens = np.array([[1, 2], [3, 9]])
    after, boosts = graph.step(states, tokens)
    for index in np.ndindex(2, 2):
        alone, boost = graph.step(states[index].reshape(1), tokens[index].reshape(1))
        assert (after[index], boosts[index]) == (alone[0], boost[0])


def test_shared_beginnings_pay_back_what_they_earned_in_any_order() -> None:
    for phrases, scores in (([(1, 2), (1, 3)], [1.0, 2.0]), ([(1, 3), (1, 2)], [2.0, 1.0])):
        boosts, state = walk(ContextGraph(phrases, scores), [1, 2, 9])
        assert (boosts[:2], state) == ([2.0, 1.0], ROOT)
        assert walk(ContextGraph(phrases, scores), [1, 9]) == ([2.0, -2.0], ROOT)


def test_states_are_as_many_as_beginnings() -> None:
    assert len(ContextGraph([(1, 2, 3), (1, 2, 4), (5,)], 1.0)) == 6


@pytest.mark.parametrize(
    ("phrases", "scores", "words"),
    [
        ([], 1.0, "0 phrases"),
        ([()], 1.0, "needs one or more"),
        ([(1, -2)], 1.0, "needs one or more"),
        ([(1,)], 0.0, "must be a number above 0"),
        ([(1,)], float("nan"), "must be a number above 0"),
        ([(1,), (2,)], [1.0], "2 phrases, but 1 scores"),
    ],
)
def test_nonsense_is_refused(phrases: list[tuple[int, ...]], scores: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ContextGraph(phrases, scores)
