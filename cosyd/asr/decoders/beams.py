"""Arithmetic on beams: arrays of [streams, hypotheses]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.hypothesis import Floats, Ints, Mask

Doubles = NDArray[np.float64]
Hashes = NDArray[np.uint64]

EMPTY = np.uint64(0x9E3779B97F4A7C15)  # hash of no tokens
_ODD = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)


def extend_hash(hashes: Hashes, tokens: Ints) -> Hashes:
    """Hash of a sequence of tokens with one more, of which two that differ have equal ones once in 2^64."""
    mixed = (hashes ^ (tokens.astype(np.uint64) + EMPTY)) * _ODD
    return np.asarray(mixed ^ (mixed >> _SHIFT), np.uint64)


def best_of_rows(values: NDArray[np.floating], k: int) -> Ints:
    """Indices of the ``k`` highest of each row, highest first, int64 [rows, k]."""
    if k < values.shape[1]:
        found = np.argpartition(values, -k, axis=1)[:, -k:]
    else:
        found = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    order = np.argsort(-np.take_along_axis(values, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1).astype(np.int64)


def merge_equal(hashes: Hashes, scores: Doubles) -> tuple[Mask, Doubles]:
    """Hypotheses of one row that say the same become one: (is the first of its kind, its total score).

    Both arguments are [rows, k]; scores are logarithms, -inf where there is no hypothesis.
    """
    same = hashes[:, :, None] == hashes[:, None, :]
    first = same.argmax(axis=2) == np.arange(hashes.shape[1])
    if first.all():
        return first, scores
    together = np.where(same, scores[:, None, :], -np.inf)
    top = together.max(axis=2)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(together - np.where(np.isfinite(top), top, 0)[:, :, None]).sum(axis=2)) + top
    return first, np.where(first, total, -np.inf)


class Graphs:
    """The context graphs of the streams of a batch, stepped together."""

    def __init__(self, graphs: Sequence[ContextGraph | None]) -> None:
        rows: dict[ContextGraph, list[int]] = {}
        for i, graph in enumerate(graphs):
            if graph is not None:
                rows.setdefault(graph, []).append(i)
        self._member = [(graph, np.isin(np.arange(len(graphs)), found)) for graph, found in rows.items()]

    def __bool__(self) -> bool:
        return bool(self._member)

    def step(self, rows: Ints, states: Ints, tokens: Ints, emitted: Mask) -> tuple[Ints, Floats]:
        """Where ``emitted`` a token, the next state and its boost; ``rows`` [n], all else [n, k]."""
        after, boosts = states.copy(), np.zeros(states.shape, np.float32)
        for graph, member in self._member:
            which = emitted & member[rows][:, None]
            after[which], boosts[which] = graph.step(states[which], tokens[which])
        return after, boosts
