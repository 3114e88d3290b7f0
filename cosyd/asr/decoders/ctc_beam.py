"""CTC prefix beam search (Graves 2012; Hannun et al. 2014) over a batch of streams; its core is in C.

A hypothesis is a sequence of tokens with two probabilities: of all alignments that end in a blank, and of all
that end in its last token. At every frame it stays as it is or is extended by one of the frame's likeliest
tokens; an extension that is a hypothesis already adds to that one's probability. Hotwords and a language
model add to a score that is kept apart from both and is the same for all alignments.

A token's frame is where its likeliest alignment enters it, its log-probability the highest of its run.

Frames that are a blank for sure change no order: they are passed over, which is nearly all there is to save,
as most frames are such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decoders.context_graph import ROOT, ContextGraph
from cosyd.asr.decoders.history import Cell, History, cells_of, grow, hypothesis_of
from cosyd.asr.decoders.hypothesis import Floats, Hypothesis, Ints, Lengths, frame_counts
from cosyd.asr.decoders.language_model import LanguageModel, LmStates, begin_all, finish_all, step_fresh
from cosyd.asr.decoders.native import (
    EMPTY,
    MOST,
    PREFIX,
    CtcCore,
    Records,
    blank_notes,
    graph_table,
    require_alive,
)

_NONE = -1  # the last token of a hypothesis without any


@dataclass
class CtcBeamState:
    """One stream, with a place for each hypothesis. ``prefixes``: see ``native.PREFIX``; ``histories``: their
    tokens but the last; ``lm``: states of the language model; ``trailing_blanks``: frames in a row whose
    best token was the blank."""

    graph: ContextGraph | None
    prefixes: Records
    histories: list[History]
    lm: LmStates
    frames_seen: int = 0
    trailing_blanks: int = 0


class CtcBeam:
    """Hypotheses are ordered by ``score``: log-probability of all alignments, and boosts."""

    def __init__(
        self,
        *,
        beam: int = 8,
        candidates: int = 8,
        blank: int = 0,
        skip_blank: float | None = 0.999,
        language_model: LanguageModel | None = None,
    ) -> None:
        """``beam``: hypotheses kept of a stream. ``candidates``: tokens considered at each frame.
        ``skip_blank``: a frame with a blank at least so probable is passed over; None searches all.

        A language model is asked about a token once that is among the hypotheses, so that twice as many
        are kept, for it to choose from.
        """
        self._places = beam if language_model is None else 2 * beam
        if beam < 1 or self._places > MOST or not 0 < candidates <= MOST:
            raise ValueError(f"a beam of {beam}, {candidates} candidates: must be 1 to {MOST // 2}")
        self._candidates = candidates
        self._blank = blank
        self._skip = np.inf if skip_blank is None else float(np.log(skip_blank))
        self._lm = language_model

    def open(self, graph: ContextGraph | None = None) -> CtcBeamState:
        prefixes = np.zeros(self._places, PREFIX)
        for name in ("blank", "label"):
            prefixes[name] = -np.inf
        prefixes["blank"][0] = 0
        prefixes["last"] = _NONE
        prefixes["hash"] = EMPTY
        prefixes["phrase"] = ROOT
        lm = begin_all(self._lm, self._places)
        return CtcBeamState(graph, prefixes, [None] * self._places, lm)

    def restart(self, state: CtcBeamState, graph: ContextGraph | None = None) -> CtcBeamState:
        return self.open(graph)

    def decode(self, scores: Floats, states: Sequence[CtcBeamState], lengths: Lengths = None) -> None:
        """``scores``: log-probabilities, float32 [streams, frames, vocabulary]."""
        counts = frame_counts(scores, states, lengths)
        if not counts.any():
            return
        prefixes = np.stack([state.prefixes for state in states])
        notes = blank_notes(scores.shape[1], *prefixes.shape)
        core = CtcCore(
            prefixes,
            graph_table([state.graph for state in states]),
            notes,
            np.array([state.frames_seen for state in states], np.int64),
            scores,
            counts,
            candidates=min(self._candidates, scores.shape[2] - 1),
            blank=self._blank,
        )
        lm = np.stack([state.lm for state in states])
        if self._lm is None:
            core.run(0, scores.shape[1], self._skip)
        else:
            self._run_with(self._lm, core, counts, prefixes, notes, lm)
        require_alive(np.isfinite(prefixes["blank"]) | np.isfinite(prefixes["label"]))
        histories = grow([state.histories for state in states], notes)
        self._count(scores, states, counts)
        for i, state in enumerate(states):
            state.prefixes, state.histories, state.lm = prefixes[i], histories[i], lm[i]
            state.frames_seen += int(counts[i])

    def _run_with(
        self,
        model: LanguageModel,
        core: CtcCore,
        counts: Ints,
        prefixes: Records,
        notes: Records,
        lm: LmStates,
    ) -> None:
        for frame in range(int(counts.max())):
            core.run(frame, frame + 1, self._skip)
            rows = np.flatnonzero(counts > frame)
            lm[rows] = np.take_along_axis(lm[rows], notes[frame]["parent"][rows], axis=1)
            owner, place = np.nonzero(prefixes["fresh"][rows])
            fresh = (rows[owner], place)
            prefixes["bonus"][fresh] += step_fresh(model, lm, fresh, prefixes["last"][fresh])

    def _count(self, scores: Floats, states: Sequence[CtcBeamState], counts: Ints) -> None:
        inside = np.arange(scores.shape[1]) < counts[:, None]
        spoken = (scores.argmax(axis=2) != self._blank) & inside
        since = counts - scores.shape[1] + spoken[:, ::-1].argmax(axis=1)
        silent = ~np.any(spoken, axis=1)
        for i, state in enumerate(states):
            state.trailing_blanks = state.trailing_blanks + int(counts[i]) if silent[i] else int(since[i])

    def n_best(self, state: CtcBeamState, n: int = 1, *, final: bool = False) -> list[Hypothesis]:
        prefixes = state.prefixes
        totals: NDArray[np.float64] = np.logaddexp(prefixes["blank"], prefixes["label"]) + prefixes["bonus"]
        if final and state.graph is not None:
            totals = totals + state.graph.finalize(prefixes["phrase"])
        if final and self._lm is not None:
            totals = totals + finish_all(self._lm, state.lm)
        order = np.argsort(-totals, kind="stable")[: min(n, int(np.isfinite(totals).sum()))]
        return [
            hypothesis_of(
                self._cells(state, i),
                float(totals[i]),
                state.trailing_blanks,
                boosted=state.graph is not None,
            )
            for i in order.tolist()
        ]

    def _cells(self, state: CtcBeamState, which: int) -> list[Cell]:
        cells, last = cells_of(state.histories[which]), state.prefixes[which]
        if last["last"] != _NONE:
            kind = "blank" if last["blank"] > last["label"] else "label"
            event = (last["last"], last[f"{kind}_frame"], last[f"{kind}_peak"], last["boost"])
            token, frame, log_prob, boost = (value.item() for value in event)
            cells.append(Cell(None, token, frame, log_prob, boost))
        return cells
