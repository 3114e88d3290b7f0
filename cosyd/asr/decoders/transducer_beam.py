"""Transducer beam search with at most one token a frame ("modified beam search", Kang et al. 2022).

Each hypothesis either emits a token or stays as it is at every frame; hypotheses that come to say the same
become one. All hypotheses of all streams of a batch go through the joiner together; what follows from its
scores is decided in C (``beam_transducer.c``).

Results are those of sherpa-onnx's online search with the same settings, up to the order of equal scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decoders.context_graph import ROOT, ContextGraph
from cosyd.asr.decoders.history import History, cells_of, grow, hypothesis_of
from cosyd.asr.decoders.hypothesis import Floats, Hypothesis, Ints, Lengths, frame_counts
from cosyd.asr.decoders.language_model import LanguageModel, LmStates, begin_all, finish_all, step_fresh
from cosyd.asr.decoders.native import (
    EMPTY,
    HYPOTHESIS,
    MOST,
    Records,
    TransducerCore,
    blank_notes,
    extend_hash,
    graph_table,
    require_alive,
)
from cosyd.asr.decoders.transducer import DecoderCache, TransducerNetworks, first_context


@dataclass
class TransducerBeamState:
    """One stream, a place for each hypothesis and one more. ``hypotheses``: see ``native.HYPOTHESIS``;
    ``contexts``: int64 [width, context_size]; ``decoder_out``: float32 [width, J], what the decoder makes of
    them; ``lm``: states of the language model."""

    graph: ContextGraph | None
    hypotheses: Records
    contexts: Ints
    decoder_out: Floats
    histories: list[History]
    lm: LmStates
    frames_seen: int = 0


class TransducerBeam:
    """Hypotheses are ordered by score divided by length, which is also their ``score``."""

    def __init__(
        self,
        networks: TransducerNetworks,
        *,
        beam: int = 4,
        blank_penalty: float = 0.0,
        temperature: float = 1.0,
        language_model: LanguageModel | None = None,
    ) -> None:
        """``beam``: hypotheses kept of a stream. ``blank_penalty``: taken from the blank's logit, against
        deletions. ``temperature``: divides the logits that ``log_probs`` come from and nothing else."""
        if not 0 < beam < MOST:
            raise ValueError(f"a beam of {beam}: must be 1 to {MOST - 1}")
        self._networks = networks
        self._decoder = DecoderCache(networks)
        self._beam = beam
        self._penalty = max(0.0, blank_penalty)
        self._temperature = temperature
        self._lm = language_model

    def open(self, graph: ContextGraph | None = None) -> TransducerBeamState:
        return self._state(graph, first_context(self._networks.context_size)[None], np.zeros(1))

    def _state(
        self, graph: ContextGraph | None, contexts: Ints, scores: NDArray[np.float64]
    ) -> TransducerBeamState:
        """Hypotheses without tokens that differ in what was before them; there is one place more than the
        beam is wide, for ``restart``."""
        k, width = len(scores), self._beam + 1
        hypotheses = np.zeros(width, HYPOTHESIS)
        hypotheses["score"] = -np.inf
        hypotheses["phrase"] = ROOT
        hypotheses["length"] = self._networks.context_size
        hypotheses["score"][:k] = scores
        hypotheses["hash"][:k] = _hash_contexts(contexts)
        padded = np.repeat(contexts[:1], width, axis=0)
        padded[:k] = contexts
        outs = self._decoder.run(padded)
        return TransducerBeamState(
            graph, hypotheses, padded, outs, [None] * width, begin_all(self._lm, width)
        )

    def decode(self, scores: Floats, states: Sequence[TransducerBeamState], lengths: Lengths = None) -> None:
        """``scores``: outputs of the encoder, float32 [streams, frames, E]."""
        counts = frame_counts(scores, states, lengths)
        if not counts.any():
            return
        hypotheses = np.stack([state.hypotheses for state in states])
        contexts = np.stack([state.contexts for state in states])
        lm = np.stack([state.lm for state in states])
        frames = int(counts.max())
        notes = blank_notes(frames, *hypotheses.shape)
        decoder_out = np.stack([state.decoder_out for state in states])
        graphs = graph_table([state.graph for state in states])
        seen = np.array([state.frames_seen for state in states], np.int64)
        core = TransducerCore(
            hypotheses, contexts, decoder_out, graphs, notes, seen, scores,
            beam=self._beam, vocabulary=self._networks.vocabulary, unk=self._networks.unk,
        )  # fmt: skip
        every, least = np.arange(len(states)), int(counts.min())
        for frame in range(frames):
            rows = every if frame < least else np.flatnonzero(counts > frame)
            logits = self._networks.run_joiner(*core.pack(rows, frame))
            fresh = core.step(rows, frame, logits, self._penalty, self._temperature)
            if len(fresh):
                places = decoder_out.reshape(-1, decoder_out.shape[2])
                places[fresh] = self._decoder.run(contexts.reshape(-1, contexts.shape[2])[fresh])
            if self._lm is not None:
                self._ask(self._lm, rows, np.divmod(fresh, lm.shape[1]), hypotheses, notes[frame], lm)
        require_alive(np.isfinite(hypotheses["score"]))
        histories = grow([state.histories for state in states], notes)
        for i, state in enumerate(states):
            state.hypotheses, state.contexts = hypotheses[i], contexts[i]
            state.decoder_out, state.lm, state.histories = decoder_out[i], lm[i], histories[i]
            state.frames_seen += int(counts[i])

    def _ask(
        self,
        model: LanguageModel,
        rows: Ints,
        fresh: tuple[Ints, Ints],
        hypotheses: Records,
        note: Records,
        lm: LmStates,
    ) -> None:
        lm[rows] = np.take_along_axis(lm[rows], note["parent"][rows], axis=1)
        hypotheses["score"][fresh] += step_fresh(model, lm, fresh, note["token"][fresh])

    def n_best(self, state: TransducerBeamState, n: int = 1, *, final: bool = False) -> list[Hypothesis]:
        totals = state.hypotheses["score"]
        if final and state.graph is not None:
            totals = totals + state.graph.finalize(state.hypotheses["phrase"])
        if final and self._lm is not None:
            totals = totals + finish_all(self._lm, state.lm)
        means = totals / state.hypotheses["length"]
        found: dict[tuple[int, ...], Hypothesis] = {}  # after a restart two may differ in their pasts only
        for i in np.argsort(-means, kind="stable")[: np.isfinite(means).sum()].tolist():
            hypothesis = hypothesis_of(
                cells_of(state.histories[i]),
                float(means[i]),
                int(state.hypotheses["blanks"][i]),
                boosted=state.graph is not None,
            )
            found.setdefault(hypothesis.tokens, hypothesis)
            if len(found) == n:
                break
        return list(found.values())

    def restart(self, state: TransducerBeamState, graph: ContextGraph | None = None) -> TransducerBeamState:
        """The decoder goes on from the last tokens as well as from the beginning, if there were any.

        As in the reference, hypotheses keep what they have scored, and one that knows nothing of them joins
        with a score of 0: after a long utterance it wins, after a short one the others may.
        """
        scores = state.hypotheses["score"]
        if state.histories[int(np.argmax(scores / state.hypotheses["length"]))] is None:
            return self.open(graph)
        together: dict[tuple[int, ...], float] = {tuple(first_context(self._networks.context_size)): 0.0}
        for context, score in zip(state.contexts.tolist(), scores.tolist(), strict=True):
            if np.isfinite(score):
                other = together.get(tuple(context), -np.inf)
                together[tuple(context)] = float(np.logaddexp(other, score))
        return self._state(graph, np.array(list(together), np.int64), np.array(list(together.values())))


def _hash_contexts(contexts: Ints) -> NDArray[np.uint64]:
    hashes = np.full(len(contexts), EMPTY)
    for tokens in contexts.T:
        hashes = extend_hash(hashes, tokens)
    return hashes
