"""Transducer beam search with at most one token a frame ("modified beam search", Kang et al. 2022).

Each hypothesis either emits a token or stays as it is at every frame; hypotheses that come to say the same
become one. All hypotheses of all streams of a batch go through the joiner together, and everything else is
array arithmetic over [streams, hypotheses].

Results are those of sherpa-onnx's online search with the same settings, up to the order of equal scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosyd.asr.decoders.beams import (
    EMPTY,
    Doubles,
    Graphs,
    Hashes,
    best_of_rows,
    extend_hash,
    merge_equal,
)
from cosyd.asr.decoders.context_graph import ROOT, ContextGraph
from cosyd.asr.decoders.history import Cell, Notes, cells_of
from cosyd.asr.decoders.hypothesis import (
    Floats,
    Hypothesis,
    Ints,
    Lengths,
    Mask,
    frame_counts,
    log_softmax,
)
from cosyd.asr.decoders.transducer import BLANK, DecoderCache, TransducerNetworks, first_context


@dataclass
class TransducerBeamState:
    """One stream: k hypotheses, those that live.

    ``contexts``: int64 [k, context_size]; ``scores``: log-probabilities with boosts; ``lengths``: tokens with
    the first context; ``blanks``: frames since the last token; ``phrases``: states in ``graph``.
    """

    graph: ContextGraph | None
    contexts: Ints
    scores: Doubles
    lengths: Ints
    hashes: Hashes
    blanks: Ints
    phrases: Ints
    histories: list[Cell | None]
    frames_seen: int = 0


@dataclass
class _Beams:
    """The hypotheses of a batch: [n, width], a score of -inf where there is none."""

    contexts: Ints
    decoder_out: Floats
    scores: Doubles
    lengths: Ints
    hashes: Hashes
    blanks: Ints
    phrases: Ints


class TransducerBeam:
    """Hypotheses are ordered by score divided by length, which is also their ``score``."""

    def __init__(
        self,
        networks: TransducerNetworks,
        *,
        beam: int = 4,
        blank_penalty: float = 0.0,
        temperature: float = 1.0,
    ) -> None:
        """``beam``: hypotheses kept of a stream. ``blank_penalty``: taken from the blank's logit, against
        deletions. ``temperature``: divides the logits that ``log_probs`` come from and nothing else."""
        self._networks = networks
        self._decoder = DecoderCache(networks)
        self._beam = beam
        self._penalty = np.float32(max(0.0, blank_penalty))
        self._temperature = np.float32(temperature)

    def open(self, graph: ContextGraph | None = None) -> TransducerBeamState:
        contexts = first_context(self._networks.context_size)[None]
        return TransducerBeamState(
            graph=graph,
            contexts=contexts,
            scores=np.zeros(1),
            lengths=np.full(1, self._networks.context_size),
            hashes=_hash_contexts(contexts),
            blanks=np.zeros(1, np.int64),
            phrases=np.full(1, ROOT),
            histories=[None],
        )

    def decode(self, scores: Floats, states: Sequence[TransducerBeamState], lengths: Lengths = None) -> None:
        """``scores``: outputs of the encoder, float32 [streams, frames, E]."""
        counts = frame_counts(scores, states, lengths)
        if not counts.any():
            return
        beams = self._gather(states)
        graphs = Graphs([state.graph for state in states])
        seen = np.array([state.frames_seen for state in states], np.int64)
        notes = Notes(*beams.scores.shape)
        for frame in range(int(counts.max())):
            rows = np.flatnonzero(counts > frame)
            self._advance(beams, rows, scores[rows, frame], seen[rows] + frame, graphs, notes)
        self._scatter(states, beams, notes, counts)

    def _gather(self, states: Sequence[TransducerBeamState]) -> _Beams:
        width = max(self._beam, *(len(state.scores) for state in states))
        shape = (len(states), width)
        beams = _Beams(
            contexts=np.zeros((*shape, self._networks.context_size), np.int64),
            decoder_out=np.zeros((*shape, 0), np.float32),
            scores=np.full(shape, -np.inf),
            lengths=np.ones(shape, np.int64),
            hashes=np.zeros(shape, np.uint64),
            blanks=np.zeros(shape, np.int64),
            phrases=np.zeros(shape, np.int64),
        )
        for i, state in enumerate(states):
            k = len(state.scores)
            beams.contexts[i, :k] = state.contexts
            beams.scores[i, :k] = state.scores
            beams.lengths[i, :k] = state.lengths
            beams.hashes[i, :k] = state.hashes
            beams.blanks[i, :k] = state.blanks
            beams.phrases[i, :k] = state.phrases
        alive = np.isfinite(beams.scores)
        out = self._decoder.run(beams.contexts[alive])
        beams.decoder_out = np.zeros((*shape, out.shape[1]), np.float32)
        beams.decoder_out[alive] = out
        return beams

    def _scatter(
        self, states: Sequence[TransducerBeamState], beams: _Beams, notes: Notes, counts: Ints
    ) -> None:
        width = beams.scores.shape[1]
        before = [[*state.histories, *[None] * (width - len(state.histories))] for state in states]
        alive = np.isfinite(beams.scores)
        for i, (state, histories) in enumerate(zip(states, notes.grow(before), strict=True)):
            kept = np.flatnonzero(alive[i])
            state.contexts, state.scores = beams.contexts[i, kept], beams.scores[i, kept]
            state.lengths, state.hashes = beams.lengths[i, kept], beams.hashes[i, kept]
            state.blanks, state.phrases = beams.blanks[i, kept], beams.phrases[i, kept]
            state.histories = [histories[j] for j in kept]
            state.frames_seen += int(counts[i])

    def _advance(
        self, beams: _Beams, rows: Ints, encoder_out: Floats, frames: Ints, graphs: Graphs, notes: Notes
    ) -> None:
        """One frame of the streams ``rows``: ``encoder_out`` [n, E], ``frames`` [n] their numbers."""
        alive = np.isfinite(beams.scores[rows])
        owner, _ = np.nonzero(alive)
        logits = self._networks.run_joiner(encoder_out[owner], beams.decoder_out[rows][alive])
        logits = logits.reshape(len(owner), -1)
        parents, tokens, scores = self._choose(logits, alive, beams.scores[rows])
        emitted = (tokens != BLANK) & np.isfinite(scores)
        if self._networks.unk is not None:
            emitted &= tokens != self._networks.unk
        log_probs = self._token_log_probs(logits, alive, parents, tokens, emitted)
        boosts = self._renew(beams, rows, parents, tokens, scores, emitted, graphs)
        at = np.broadcast_to(frames[:, None], parents.shape)
        notes.add(rows, parents, emitted, tokens, at, log_probs, boosts)

    def _choose(self, logits: Floats, alive: Mask, scores: Doubles) -> tuple[Ints, Ints, Floats]:
        """The best continuations of each stream, best first and as wide as the beams: (hypothesis continued,
        token, score); beyond ``beam`` and where there are too few, scores are -inf.

        Single precision, as in the reference, so that near ties fall alike.
        """
        vocabulary = logits.shape[1]
        biased = logits.copy()
        biased[:, BLANK] -= self._penalty
        totals = np.full((*alive.shape, vocabulary), -np.inf, np.float32)
        totals[alive] = log_softmax(biased) + scores[alive].astype(np.float32)[:, None]
        totals = totals.reshape(len(alive), -1)
        k = min(self._beam, totals.shape[1])
        best = best_of_rows(totals, k)
        found = np.take_along_axis(totals, best, axis=1)
        wider = ((0, 0), (0, alive.shape[1] - k))
        best, found = np.pad(best, wider), np.pad(found, wider, constant_values=-np.inf)
        return best // vocabulary, best % vocabulary, found

    def _token_log_probs(
        self, logits: Floats, alive: Mask, parents: Ints, tokens: Ints, emitted: Mask
    ) -> Floats:
        index = np.zeros(alive.shape, np.int64)
        index[alive] = np.arange(len(logits))
        row = np.nonzero(emitted)[0]
        chosen = log_softmax(logits[index[row, parents[emitted]]] / self._temperature)
        out = np.zeros(emitted.shape, np.float32)
        out[emitted] = chosen[np.arange(len(chosen)), tokens[emitted]]
        return out

    def _renew(
        self,
        beams: _Beams,
        rows: Ints,
        parents: Ints,
        tokens: Ints,
        scores: Floats,
        emitted: Mask,
        graphs: Graphs,
    ) -> Floats:
        """Puts the continuations in the place of the hypotheses; returns what hotwords gave each."""
        at = rows[:, None]
        phrases, boosts = beams.phrases[at, parents], np.zeros(scores.shape, np.float32)
        if graphs:
            phrases, boosts = graphs.step(rows, phrases, tokens, emitted)
        hashes = beams.hashes[at, parents]
        hashes = np.where(emitted, extend_hash(hashes, tokens), hashes)
        kept, totals = merge_equal(
            np.where(np.isfinite(scores), hashes, np.arange(scores.shape[1], dtype=np.uint64)),
            (scores + boosts).astype(np.float64),
        )
        contexts, outs = beams.contexts[at, parents], beams.decoder_out[at, parents]
        fresh = emitted & kept
        if fresh.any():
            contexts[fresh] = np.concatenate([contexts[fresh][:, 1:], tokens[fresh][:, None]], axis=1)
            outs[fresh] = self._decoder.run(contexts[fresh])
        beams.lengths[rows] = beams.lengths[at, parents] + emitted
        beams.blanks[rows] = np.where(emitted, 0, beams.blanks[at, parents] + 1)
        beams.contexts[rows], beams.decoder_out[rows] = contexts, outs
        beams.hashes[rows], beams.phrases[rows] = hashes, phrases
        beams.scores[rows] = np.where(kept, totals, -np.inf)
        return boosts

    def n_best(self, state: TransducerBeamState, n: int = 1, *, final: bool = False) -> list[Hypothesis]:
        totals = state.scores
        if final and state.graph is not None:
            totals = totals + state.graph.finalize(state.phrases)
        means = totals / state.lengths
        found: dict[tuple[int, ...], Hypothesis] = {}  # after a restart two may differ in their pasts only
        for i in np.argsort(-means, kind="stable").tolist():
            hypothesis = self._hypothesis(state, i, float(means[i]))
            found.setdefault(hypothesis.tokens, hypothesis)
            if len(found) == n:
                break
        return list(found.values())

    def _hypothesis(self, state: TransducerBeamState, which: int, score: float) -> Hypothesis:
        cells = cells_of(state.histories[which])
        return Hypothesis(
            tuple(cell.token for cell in cells),
            tuple(cell.frame for cell in cells),
            tuple(cell.log_prob for cell in cells),
            score,
            int(state.blanks[which]),
            tuple(cell.boost for cell in cells) if state.graph is not None else (),
        )

    def restart(self, state: TransducerBeamState, graph: ContextGraph | None = None) -> TransducerBeamState:
        """The decoder goes on from the last tokens as well as from the beginning, if there were any.

        As in the reference, hypotheses keep what they have scored, and one that knows nothing of them joins
        with a score of 0: after a long utterance it wins, after a short one the others may.
        """
        fresh = self.open(graph)
        best = int(np.argmax(state.scores / state.lengths))
        if state.histories[best] is None:
            return fresh
        contexts = np.concatenate([fresh.contexts, state.contexts])
        kept, scores = merge_equal(
            _hash_contexts(contexts)[None], np.concatenate([fresh.scores, state.scores])[None]
        )
        fresh.contexts, fresh.scores = contexts[kept[0]], scores[0, kept[0]]
        k = len(fresh.contexts)
        fresh.hashes = _hash_contexts(fresh.contexts)
        fresh.lengths, fresh.histories = np.repeat(fresh.lengths, k), fresh.histories * k
        fresh.blanks, fresh.phrases = np.zeros(k, np.int64), np.full(k, ROOT)
        return fresh


def _hash_contexts(contexts: Ints) -> Hashes:
    hashes = np.full(len(contexts), EMPTY)
    for tokens in contexts.T:
        hashes = extend_hash(hashes, tokens)
    return hashes
