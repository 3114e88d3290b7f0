"""CTC, the best token of every frame: repeats merged, blanks left out (Graves et al. 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.hypothesis import (
    Emitted,
    Floats,
    Hypothesis,
    Ints,
    Lengths,
    Mask,
    frame_counts,
    refuse_graph,
)


@dataclass
class CtcGreedyState(Emitted):
    """One stream. ``last``: best token of the last frame, -1 before the first."""

    last: int = -1


class CtcGreedy:
    """A token's frame is the first of its run, its log-probability the highest within the run."""

    def __init__(self, *, blank: int = 0) -> None:
        self._blank = blank

    def open(self, graph: ContextGraph | None = None) -> CtcGreedyState:
        refuse_graph(graph)
        return CtcGreedyState()

    def decode(self, scores: Floats, states: Sequence[CtcGreedyState], lengths: Lengths = None) -> None:
        """``scores``: log-probabilities, float32 [streams, frames, vocabulary]."""
        counts = frame_counts(scores, states, lengths)
        if scores.shape[1] == 0 or not states:
            return
        best = scores.argmax(axis=2)
        inside = np.arange(scores.shape[1]) < counts[:, None]
        spoken = (best != self._blank) & inside
        before = np.concatenate([np.array([[state.last] for state in states]), best[:, :-1]], axis=1)
        starts = spoken & (best != before)
        top = np.take_along_axis(scores, best[:, :, None], axis=2)[:, :, 0]
        self._extend(states, best, top, spoken, starts)
        self._count(states, best, spoken, counts)

    def _extend(
        self,
        states: Sequence[CtcGreedyState],
        best: Ints,
        top: Floats,
        spoken: Mask,
        starts: Mask,
    ) -> None:
        """Adds the chunk's tokens; a run that goes on from the chunk before improves that token."""
        for i in np.flatnonzero(np.any(spoken, axis=1)).tolist():
            state, at = states[i], np.flatnonzero(starts[i])
            run = np.where(spoken[i], top[i], -np.inf)
            carried = run[: at[0]] if len(at) else run
            if state.log_probs and len(carried):
                state.log_probs[-1] = max(state.log_probs[-1], float(carried.max()))
            state.tokens += best[i, at].tolist()
            state.frames += (at + state.frames_seen).tolist()
            state.log_probs += np.maximum.reduceat(run, at).tolist() if len(at) else []

    def _count(
        self,
        states: Sequence[CtcGreedyState],
        best: Ints,
        spoken: Mask,
        counts: Ints,
    ) -> None:
        since = counts - spoken.shape[1] + spoken[:, ::-1].argmax(axis=1)
        silent = ~np.any(spoken, axis=1)
        last = best[np.arange(len(best)), counts - 1]
        for i, state in enumerate(states):
            if counts[i]:
                state.trailing_blanks = int(counts[i]) + state.trailing_blanks if silent[i] else int(since[i])
                state.last = int(last[i])
                state.frames_seen += int(counts[i])

    def n_best(self, state: CtcGreedyState, n: int = 1, *, final: bool = False) -> list[Hypothesis]:
        return [state.hypothesis()]

    def restart(self, state: CtcGreedyState, graph: ContextGraph | None = None) -> CtcGreedyState:
        return self.open(graph)
