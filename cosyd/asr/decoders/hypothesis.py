"""What the searches have in common: their result, and how they are called.

A search holds settings and no audio. What it knows of one stream is that stream's *state*, made by ``open``;
each call of ``decode`` gets the scores of one chunk for any number of streams together with their states, so
that streams join and leave a batch as they like and stay independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cosyd.asr.decoders.context_graph import ContextGraph

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Lengths = Sequence[int] | Ints | None

Mask = NDArray[np.bool_]

State = TypeVar("State")


@dataclass(frozen=True)
class Hypothesis:
    """One reading of a stream, from its start or its last ``restart``.

    ``frames``: for each token the output frame (of the encoder) that it was emitted at, from 0.
    ``log_probs``: natural logarithm of each token's probability (see the search for what exactly).
    ``score``: log-probability of the whole with all boosts; comparable within one n-best list only.
    ``trailing_blanks``: frames since the last token; what an endpoint counts.
    ``boosts``: what the hotwords added to each token's score; empty without hotwords.
    """

    tokens: tuple[int, ...] = ()
    frames: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    score: float = 0.0
    trailing_blanks: int = 0
    boosts: tuple[float, ...] = ()


class StreamDecoder(Protocol[State]):
    """A search over the scores of many streams. Not for several threads at once with the same states."""

    def open(self, graph: ContextGraph | None = None) -> State:
        """State of a new stream. ``graph``: phrases to favour; searches without hypotheses refuse one."""
        ...

    def decode(self, scores: Floats, states: Sequence[State], lengths: Lengths = None) -> None:
        """One chunk: ``scores`` is float32 [streams, frames, width], row i continues ``states[i]``.

        ``lengths``: how many frames of each row count; None: all. Raises ValueError for sizes that differ,
        and a beam search InferenceError for scores that are no numbers; states are then as before.
        """
        ...

    def n_best(self, state: State, n: int = 1, *, final: bool = False) -> list[Hypothesis]:
        """The best readings so far, best first, at least one and at most ``n``.

        ``final``: the utterance is over, so that boosts of phrases that were begun only are taken back.
        """
        ...

    def restart(self, state: State, graph: ContextGraph | None = None) -> State:
        """The state of the next utterance on the same stream: tokens and frame count begin again, ``graph``
        takes effect. What a transducer's decoder needs of the last tokens is kept.
        """
        ...


@dataclass
class Emitted:
    """What a greedy search has found in one stream."""

    frames_seen: int = 0
    trailing_blanks: int = 0
    tokens: list[int] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    def hypothesis(self) -> Hypothesis:
        """Its ``score`` is the sum of the tokens' log-probabilities."""
        return Hypothesis(
            tuple(self.tokens),
            tuple(self.frames),
            tuple(self.log_probs),
            sum(self.log_probs),
            self.trailing_blanks,
        )


def refuse_graph(graph: ContextGraph | None) -> None:
    """For greedy searches, which have no second hypothesis that a boost could prefer."""
    if graph is not None:
        raise ValueError("hotwords need a beam search: a greedy one has nothing to choose from")


def frame_counts(scores: Floats, states: Sequence[object], lengths: Lengths) -> Ints:
    """How many frames of each row count, int64 [streams]; checks that everything fits together."""
    if scores.ndim != 3 or len(scores) != len(states):
        raise ValueError(f"scores of shape {scores.shape} for {len(states)} streams")
    if lengths is None:
        return np.full(len(states), scores.shape[1], np.int64)
    counts = np.asarray(lengths, np.int64)
    if counts.shape != (len(states),) or (counts < 0).any() or (counts > scores.shape[1]).any():
        raise ValueError(f"lengths {counts.tolist()} for scores of shape {scores.shape}")
    return counts


def log_softmax(logits: Floats) -> Floats:
    """Along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)), np.float32)
