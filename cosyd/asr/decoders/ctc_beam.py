"""CTC prefix beam search (Graves 2012; Hannun et al. 2014) over a batch of streams.

A hypothesis is a sequence of tokens with two probabilities: of all alignments that end in a blank, and of all
that end in its last token. At every frame it stays as it is or is extended by one of the frame's likeliest
tokens; an extension that is a hypothesis already adds to that one's probability. Hotwords and a language
model add to a score that is kept apart from both and is the same for all alignments.

A token's frame is where its likeliest alignment enters it, its log-probability the highest of its run.

Frames that are a blank for sure change no order, so they are skipped: what they do to the probabilities is
made up for at the next frame that is not, and streams advance by such frames only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosyd.asr.decoders.beams import Doubles, Graphs, best_of_rows, extend_hash
from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.history import Cell, Notes, cells_of
from cosyd.asr.decoders.hypothesis import Floats, Hypothesis, Ints, Lengths, Mask, frame_counts
from cosyd.asr.decoders.language_model import LanguageModel, begin_all, finish_all, step_all
from cosyd.asr.decoders.prefixes import NONE, Prefixes


@dataclass
class CtcBeamState:
    """One stream. ``histories``: of each hypothesis the tokens but the last; ``trailing_blanks``: frames in a
    row whose best token was the blank."""

    graph: ContextGraph | None
    prefixes: Prefixes
    histories: list[Cell | None]
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
        ``skip_blank``: a frame with a blank at least so probable is not searched; None searches all."""
        self._beam = beam
        self._candidates = candidates
        self._blank = blank
        self._skip = np.inf if skip_blank is None else float(np.log(skip_blank))
        self._lm = language_model

    def open(self, graph: ContextGraph | None = None) -> CtcBeamState:
        prefixes = Prefixes.none((1,))
        prefixes.blank[:] = 0
        prefixes.lm = begin_all(self._lm, (1,))
        return CtcBeamState(graph, prefixes, [None])

    def restart(self, state: CtcBeamState, graph: ContextGraph | None = None) -> CtcBeamState:
        return self.open(graph)

    def decode(self, scores: Floats, states: Sequence[CtcBeamState], lengths: Lengths = None) -> None:
        """``scores``: log-probabilities, float32 [streams, frames, vocabulary]."""
        counts = frame_counts(scores, states, lengths)
        if not counts.any():
            return
        beams = Prefixes.none((len(states), self._beam))
        for i, state in enumerate(states):
            beams.put((i, slice(len(state.histories))), state.prefixes)
        graphs = Graphs([state.graph for state in states])
        notes = Notes(*beams.blank.shape)
        frames, gaps, tail = self._searched(scores[:, :, self._blank], counts)
        tokens = self._likely(scores)
        seen = np.array([state.frames_seen for state in states], np.int64)
        for step in range(frames.shape[1]):
            rows = np.flatnonzero(frames[:, step] >= 0)
            at = frames[rows, step]
            here = beams.take(rows)
            here.pass_blanks(gaps[rows, step])
            new = self._advance(
                here, rows, scores[rows, at], tokens[rows, at], seen[rows] + at, graphs, notes
            )
            beams.put(rows, new)
        beams.pass_blanks(tail)
        self._scatter(states, beams, notes, scores, counts)

    def _searched(self, blank: Floats, counts: Ints) -> tuple[Ints, Doubles, Doubles]:
        """Which frames are searched: (their numbers [n, most], -1 after the last; log-probability of the
        blanks skipped before each; that of those after the last). 1 where none were skipped."""
        inside = np.arange(blank.shape[1]) < counts[:, None]
        searched = inside & (blank < self._skip)
        skipped = np.where(inside & ~searched, blank, 0).astype(np.float64)
        sums = np.cumsum(np.pad(skipped, ((0, 0), (1, 0))), axis=1)
        most = int(searched.sum(axis=1).max())
        order = np.argsort(~searched, axis=1, kind="stable")[:, :most]
        frames = np.where(np.take_along_axis(searched, order, axis=1), order, -1)
        ends = np.concatenate([np.where(frames >= 0, frames, counts[:, None]), counts[:, None]], axis=1)
        starts = np.concatenate([np.zeros((len(counts), 1), np.int64), ends[:, :-1] + 1], axis=1)
        starts = np.minimum(starts, ends)
        passed = np.take_along_axis(sums, ends, axis=1) - np.take_along_axis(sums, starts, axis=1)
        gaps = np.where(ends > starts, passed, 1.0)
        first_end = (frames >= 0).sum(axis=1)
        return frames, gaps, np.take_along_axis(gaps, first_end[:, None], axis=1)[:, 0]

    def _likely(self, scores: Floats) -> Ints:
        """The likeliest tokens of each frame, the blank aside, int64 [n, frames, candidates]."""
        without = scores.copy()
        without[:, :, self._blank] = -np.inf
        k = min(self._candidates, scores.shape[2] - 1)
        return np.argpartition(without, -k, axis=2)[:, :, -k:].astype(np.int64)

    def _advance(
        self,
        old: Prefixes,
        rows: Ints,
        scores: Floats,
        tokens: Ints,
        frames: Ints,
        graphs: Graphs,
        notes: Notes,
    ) -> Prefixes:
        """One frame of the streams ``rows``: ``scores`` [n, vocabulary], ``tokens`` [n, candidates]."""
        stays = self._stay(old, scores, frames)
        longer = self._longer(old, rows, scores, tokens, graphs)
        rank = np.concatenate([stays.total + stays.bonus, longer.label + longer.bonus], axis=1)
        best = best_of_rows(rank, self._beam)
        extended = best >= self._beam
        here = np.arange(len(rows))[:, None]
        chosen = np.where(extended, best - self._beam, 0)
        source = np.where(extended, chosen // tokens.shape[1], best)
        real = np.isfinite(rank[here, best])
        self._note(old, rows, source, extended & real, notes)
        new, picked = stays.take((here, source)), longer.take((here, chosen))
        picked.hashes = extend_hash(picked.before, picked.last)
        picked.label_frame = np.broadcast_to(frames[:, None], best.shape)
        picked.label_peak = scores[here, picked.last]
        new.put(extended, picked.take(extended))
        new.blank[~real] = new.label[~real] = -np.inf
        new.last[~real] = NONE
        return new

    def _longer(self, old: Prefixes, rows: Ints, scores: Floats, tokens: Ints, graphs: Graphs) -> Prefixes:
        """Every hypothesis with every candidate after it, [n, width * candidates]; hashes and frames are left
        out, which only those need that are chosen."""
        k = tokens.shape[1]
        new = old.take((slice(None), np.repeat(np.arange(self._beam), k)))
        new.before = new.hashes
        new.label = self._extend(old, scores, tokens).reshape(new.label.shape)
        new.blank = np.full_like(new.label, -np.inf)
        new.last = np.tile(tokens, (1, self._beam))
        possible = np.isfinite(new.label)
        if graphs:
            new.phrases, new.boost = graphs.step(rows, new.phrases, new.last, possible)
            new.bonus = new.bonus + new.boost
        if self._lm is not None:
            self._ask(self._lm, new, possible)
        return new

    def _ask(self, model: LanguageModel, longer: Prefixes, possible: Mask) -> None:
        """The language model's say on the extensions that have a chance without it; the others are out."""
        rank = longer.label + longer.bonus
        asked = np.zeros(rank.shape, bool)
        likely = best_of_rows(rank, min(2 * self._beam, rank.shape[1]))
        np.put_along_axis(asked, likely, True, axis=1)
        asked &= possible
        longer.lm, scores = step_all(model, longer.lm, longer.last, asked)
        longer.bonus = np.where(asked, longer.bonus + scores, -np.inf)

    def _stay(self, old: Prefixes, scores: Floats, frames: Ints) -> Prefixes:
        """The hypotheses after a frame that adds no token to them, be it one that made them anew."""
        new = old.take(...)
        again = np.where(old.last >= 0, np.take_along_axis(scores, np.maximum(old.last, 0), axis=1), -np.inf)
        born = self._reborn(old) + again
        stayed = old.label + again
        new.blank = old.total + scores[:, [self._blank]]
        new.label = np.logaddexp(stayed, born)
        new.blank_frame, new.blank_peak = old.entry()
        later = born > stayed
        new.label_frame = np.where(later, frames[:, None], old.label_frame)
        peak = np.where(later, again, np.maximum(again, old.label_peak))
        new.label_peak = peak.astype(np.float32)
        return new

    def _reborn(self, old: Prefixes) -> Doubles:
        """For each hypothesis the log-probability of the one without its last token from where that token
        may follow, -inf if it is not among the others."""
        child = old.before[:, :, None] == old.hashes[:, None, :]
        child &= (old.last >= 0)[:, :, None]
        repeats = old.last[:, :, None] == old.last[:, None, :]
        source = np.where(repeats, old.blank[:, None, :], old.total[:, None, :])
        return np.asarray(np.where(child, source, -np.inf).max(axis=2))

    def _extend(self, old: Prefixes, scores: Floats, tokens: Ints) -> Doubles:
        """Log-probability of each hypothesis with each token after it, [n, width, candidates]; -inf for those
        that are hypotheses already."""
        repeats = old.last[:, :, None] == tokens[:, None, :]
        longer = np.where(repeats, old.blank[:, :, None], old.total[:, :, None])
        longer = longer + np.take_along_axis(scores, tokens, axis=1)[:, None, :]
        child = old.before[:, :, None] == old.hashes[:, None, :]
        row, son, father = np.nonzero(child & (old.last >= 0)[:, :, None])
        pair, which = np.nonzero(tokens[row] == old.last[row, son][:, None])
        longer[row[pair], father[pair], which] = -np.inf
        return longer

    def _note(self, old: Prefixes, rows: Ints, source: Ints, extended: Mask, notes: Notes) -> None:
        """Where a token follows, the last one is final."""
        frames, peaks = old.entry()
        at = (np.arange(len(rows))[:, None], source)
        last = old.last[at]
        notes.add(rows, source, extended & (last >= 0), last, frames[at], peaks[at], old.boost[at])

    def _scatter(
        self, states: Sequence[CtcBeamState], beams: Prefixes, notes: Notes, scores: Floats, counts: Ints
    ) -> None:
        width = beams.blank.shape[1]
        before = [[*state.histories, *[None] * (width - len(state.histories))] for state in states]
        alive = np.isfinite(beams.total)
        inside = np.arange(scores.shape[1]) < counts[:, None]
        spoken = (scores.argmax(axis=2) != self._blank) & inside
        since = counts - scores.shape[1] + spoken[:, ::-1].argmax(axis=1)
        for i, (state, histories) in enumerate(zip(states, notes.grow(before), strict=True)):
            kept = np.flatnonzero(alive[i])
            state.prefixes = beams.take((i, kept))
            state.histories = [histories[j] for j in kept]
            state.frames_seen += int(counts[i])
            quiet = not spoken[i].any()
            state.trailing_blanks = state.trailing_blanks + int(counts[i]) if quiet else int(since[i])

    def n_best(self, state: CtcBeamState, n: int = 1, *, final: bool = False) -> list[Hypothesis]:
        prefixes = state.prefixes
        totals = prefixes.total + prefixes.bonus
        if final and state.graph is not None:
            totals = totals + state.graph.finalize(prefixes.phrases)
        if final and self._lm is not None:
            totals = totals + finish_all(self._lm, prefixes.lm)
        order = np.argsort(-totals, kind="stable")[:n].tolist()
        return [self._hypothesis(state, i, float(totals[i])) for i in order]

    def _hypothesis(self, state: CtcBeamState, which: int, score: float) -> Hypothesis:
        prefixes = state.prefixes
        cells = cells_of(state.histories[which])
        if prefixes.last[which] >= 0:
            values = (prefixes.last, *prefixes.entry(), prefixes.boost)
            token, frame, log_prob, boost = (value[which].item() for value in values)
            cells.append(Cell(None, token, frame, log_prob, boost))
        return Hypothesis(
            tuple(cell.token for cell in cells),
            tuple(cell.frame for cell in cells),
            tuple(cell.log_prob for cell in cells),
            score,
            state.trailing_blanks,
            tuple(cell.boost for cell in cells) if state.graph is not None else (),
        )
