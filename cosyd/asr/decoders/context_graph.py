"""Phrases to favour, as an automaton over token ids (Aho and Corasick 1975) that gives and takes back boosts.

Each token that brings a hypothesis further into a phrase earns the phrase's score; a token that leaves the
path pays back what the path has earned, less what the longest other beginning that still fits is worth (the
fail arc). When a phrase is complete its boost is kept and matching starts afresh at the root. These are the
rules of sherpa-onnx's streaming searches, so that the same list of hotwords with the same scores gives the
same text; ``strict`` selects icefall's original ones, where a complete phrase earns its boost once more and
matching goes on inside of it.

One difference, where phrases of different scores begin alike: a shared token earns the highest of the
scores, and all that follows is reckoned from there, so that what is paid back is what was earned. The others
reckon in the order of the list, where a rest of a boost can stay behind.

A graph is immutable. Searches step whole batches of hypotheses through it at once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

ROOT = 0


@dataclass
class _Node:
    """A beginning of one or more phrases. ``fail``: the longest proper suffix that is a beginning, too;
    ``output``: the longest one that is a whole phrase, -1 for none; ``phrase``: which one ends here."""

    token_score: float = 0.0
    node_score: float = 0.0
    output_score: float = 0.0
    phrase: int = -1
    fail: int = ROOT
    output: int = -1
    next: dict[int, int] = field(default_factory=dict)


def _grow(phrases: Sequence[Sequence[int]], scores: Sequence[float]) -> list[_Node]:
    nodes = [_Node()]
    for which, (phrase, score) in enumerate(zip(phrases, scores, strict=True)):
        at = ROOT
        for token in phrase:
            if token not in nodes[at].next:
                nodes[at].next[token] = len(nodes)
                nodes.append(_Node(token_score=score))
            at = nodes[at].next[token]
            nodes[at].token_score = max(nodes[at].token_score, score)
        nodes[at].phrase = which
    return nodes


def _link(nodes: list[_Node]) -> list[int]:
    """Fills in scores and arcs, parents first; returns that order without the root."""
    order: list[int] = []
    queue = deque([ROOT])
    while queue:
        at = queue.popleft()
        for token, child in nodes[at].next.items():
            node = nodes[child]
            node.node_score = nodes[at].node_score + node.token_score
            node.fail = _fail_arc(nodes, nodes[at].fail, token) if at != ROOT else ROOT
            suffix = nodes[node.fail]
            node.output = node.fail if suffix.phrase >= 0 else suffix.output
            node.output_score = node.node_score if node.phrase >= 0 else 0.0
            node.output_score += nodes[node.output].output_score if node.output >= 0 else 0.0
            order.append(child)
            queue.append(child)
    return order


def _fail_arc(nodes: list[_Node], at: int, token: int) -> int:
    while token not in nodes[at].next:
        if at == ROOT:
            return ROOT
        at = nodes[at].fail
    return nodes[at].next[token]


class ContextGraph:
    """Immutable; ``len`` is the number of its states, of which the first, ``ROOT``, is where all begins."""

    def __init__(
        self, phrases: Sequence[Sequence[int]], scores: float | Sequence[float], *, strict: bool = False
    ) -> None:
        """``phrases``: token ids, one phrase or more. ``scores``: boost of each of a phrase's tokens in nats,
        one for all or one for each phrase.

        Raises ValueError for no or an empty phrase, a negative token, or a score that is no positive number.
        """
        each = [scores] * len(phrases) if isinstance(scores, int | float) else list(scores)
        if not phrases or len(each) != len(phrases):
            raise ValueError(f"{len(phrases)} phrases, but {len(each)} scores")
        for phrase, score in zip(phrases, each, strict=True):
            if len(phrase) == 0 or min(phrase) < 0:
                raise ValueError(f"phrase {tuple(phrase)}: needs one or more token ids from 0 on")
            if not (math.isfinite(score) and score > 0):
                raise ValueError(f"score {score} of phrase {tuple(phrase)}: must be a number above 0")
        self.phrases = tuple(tuple(int(token) for token in phrase) for phrase in phrases)
        self.scores = tuple(float(score) for score in each)
        self.strict = strict
        nodes = _grow(self.phrases, self.scores)
        order = _link(nodes)
        self._fill_nodes(nodes)
        self._fill_arcs(nodes, order)

    def __len__(self) -> int:
        return len(self._node_score)

    def _fill_nodes(self, nodes: list[_Node]) -> None:
        self._node_score = np.array([node.node_score for node in nodes], np.float32)
        self._extra = np.array([self._landing_boost(nodes, node) for node in nodes], np.float32)
        leaves = not self.strict
        self._lands = np.array(
            [ROOT if leaves and node.output_score else i for i, node in enumerate(nodes)], np.int64
        )

    def _landing_boost(self, nodes: list[_Node], node: _Node) -> float:
        """What arriving at a state earns on top of the arc: something only where a phrase is complete."""
        if self.strict or not node.output_score:
            return node.output_score
        return 0.0 if node.phrase >= 0 else nodes[node.output].node_score - node.node_score

    def _fill_arcs(self, nodes: list[_Node], order: list[int]) -> None:
        """All arcs that do not lead to the root, those of fail arcs included, sorted by state and token.

        The root's own arcs are kept once and not for every state: with 1,000 phrases they are 1,000.
        """
        arcs: list[dict[int, int]] = [{} for _ in nodes]
        for at in order:
            arcs[at] = arcs[nodes[at].fail] | nodes[at].next
        arcs[ROOT] = nodes[ROOT].next
        flat = sorted((at, token, to) for at, row in enumerate(arcs) for token, to in row.items())
        table = np.array(flat, np.int64).reshape(-1, 3)
        self._width = int(table[:, 1].max(initial=0)) + 2  # a token beyond the last: never in a phrase
        self._keys = table[:, 0] * self._width + table[:, 1]
        self._to = table[:, 2].copy()
        token_score = np.array([node.token_score for node in nodes], np.float32)
        own = np.array([nodes[at].next.get(token) == to for at, token, to in flat], bool)
        moved = self._node_score[self._to] - self._node_score[table[:, 0]]
        self._delta = np.where(own, token_score[self._to], moved) + self._extra[self._to]

    @cached_property
    def table(self) -> tuple[int, ...]:
        """The graph as the searches' core in C reads it: addresses of its arrays, which never change, and two
        sizes (``struct beam_graph``)."""
        arrays = (self._keys, self._to, self._delta, self._lands, self._node_score)
        assert all(array.flags.c_contiguous for array in arrays)
        return (*(array.ctypes.data for array in arrays), len(self._keys), self._width)

    def _find(self, states: Ints, tokens: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Index of the arc of each state and token, and whether there is one."""
        keys = states * self._width + np.minimum(tokens, self._width - 1)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return at, self._keys[at] == keys

    def step(self, states: Ints, tokens: Ints) -> tuple[Ints, Floats]:
        """One token on: (states, boosts), of the shape of both arguments. Boosts may be negative.

        Blanks are no tokens: a hypothesis that emits nothing keeps its state.
        """
        arc, inside = self._find(states, tokens)
        first, begins = self._find(np.zeros_like(states), tokens)
        to = np.where(inside, self._to[arc], np.where(begins, self._to[first], ROOT))
        leaving = np.where(begins, self._delta[first], np.float32(0)) - self._node_score[states]
        return self._lands[to], np.where(inside, self._delta[arc], leaving)

    def bias(self, states: Ints, vocabulary: int) -> Floats:
        """Boost of every token, float32 [states, vocabulary]: what ``step`` would give each."""
        rows = np.repeat(-self._node_score[states][:, None], vocabulary, axis=1)
        roots = self._keys[: np.searchsorted(self._keys, self._width)]
        rows[:, roots[roots < vocabulary]] += self._delta[: len(roots)][roots < vocabulary]
        begin = np.searchsorted(self._keys, states * self._width)
        end = np.searchsorted(self._keys, (states + 1) * self._width)
        for row, state, first, last in zip(rows, states, begin, end, strict=True):
            tokens = self._keys[first:last] - state * self._width
            inside = tokens < vocabulary
            row[tokens[inside]] = self._delta[first:last][inside]
        return rows

    def finalize(self, states: Ints) -> Floats:
        """What is taken back at the end of an utterance from hypotheses in the middle of a phrase (<= 0)."""
        return np.asarray(-self._node_score[states], np.float32)
