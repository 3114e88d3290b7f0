"""Transducer, the best token of every frame, at most one a frame (Graves 2012, with a stateless decoder).

While a stream emits nothing its decoder's output stays the same, so that the joiner can look at several
frames at once; where the first of them emits, the rest is looked at again with the new context. Streams of a
batch stand at different frames.
"""

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
    log_softmax,
    refuse_graph,
)
from cosyd.asr.decoders.transducer import BLANK, DecoderCache, TransducerNetworks, first_context

# Most frames that the joiner looks at in one go: with more, too many would be looked at twice. Fewer where a
# stream says a token more often than every so many frames; more again while it is silent.
LOOK_AHEAD = 8
SLOWNESS = 0.75  # of what a stream's usual pause between tokens was, when the next one counts


@dataclass(kw_only=True)
class TransducerGreedyState(Emitted):
    """One stream. ``context``: what the decoder hears, int64 [context_size]; ``decoder_out``: what it makes
    of that, float32 [J]; ``pace``: frames from token to token, of late."""

    context: Ints
    decoder_out: Floats
    pace: float = 4.0


class TransducerGreedy:
    """The unknown word counts as a blank. Results are those of sherpa-onnx's online greedy search."""

    def __init__(
        self,
        networks: TransducerNetworks,
        *,
        blank_penalty: float = 0.0,
        temperature: float = 1.0,
        look_ahead: int = LOOK_AHEAD,
    ) -> None:
        """``blank_penalty``: taken from the blank's logit, against deletions. ``temperature``: divides the
        logits that ``log_probs`` come from; what is recognised does not depend on it."""
        self._networks = networks
        self._decoder = DecoderCache(networks)
        self._penalty = max(0.0, blank_penalty)
        self._temperature = temperature
        self._look_ahead = look_ahead

    def open(self, graph: ContextGraph | None = None) -> TransducerGreedyState:
        refuse_graph(graph)
        context = first_context(self._networks.context_size)
        return TransducerGreedyState(context=context, decoder_out=self._decoder.run(context[None])[0])

    def decode(
        self, scores: Floats, states: Sequence[TransducerGreedyState], lengths: Lengths = None
    ) -> None:
        """``scores``: outputs of the encoder, float32 [streams, frames, E]."""
        counts = frame_counts(scores, states, lengths)
        if scores.shape[1] == 0 or not states:
            return
        contexts = np.stack([state.context for state in states])
        decoder_out = np.stack([state.decoder_out for state in states])
        at = np.zeros(len(states), np.int64)
        blanks = np.array([state.trailing_blanks for state in states], np.int64)
        pace = np.array([state.pace for state in states])
        while (live := np.flatnonzero(at < counts)).size:
            reach = np.maximum(pace[live], blanks[live]).astype(np.int64)
            ahead = np.minimum(counts[live] - at[live], np.clip(reach, 1, self._look_ahead))
            emitted, used, tokens, log_probs = self._look(scores, decoder_out, live, at[live], ahead)
            at[live] += used
            blanks[live] += used
            who = live[emitted]
            if not who.size:
                continue
            pause = np.minimum(blanks[who], self._look_ahead)
            pace[who] = SLOWNESS * pace[who] + (1 - SLOWNESS) * pause
            blanks[who] = 0
            for i, frame, token, p in zip(
                who.tolist(), (at[who] - 1).tolist(), tokens, log_probs, strict=True
            ):
                states[i].tokens.append(token)
                states[i].frames.append(frame + states[i].frames_seen)
                states[i].log_probs.append(p)
            contexts[who] = np.concatenate([contexts[who, 1:], np.array(tokens)[:, None]], axis=1)
            decoder_out[who] = self._decoder.run(contexts[who])
        for i, state in enumerate(states):
            state.context, state.decoder_out = contexts[i], decoder_out[i]
            state.trailing_blanks, state.pace = int(blanks[i]), float(pace[i])
            state.frames_seen += int(counts[i])

    def _look(
        self, scores: Floats, decoder_out: Floats, live: Ints, at: Ints, ahead: Ints
    ) -> tuple[Mask, Ints, list[int], list[float]]:
        """The next ``ahead`` frames of the ``live`` streams: which of them emit, how many frames that takes,
        and of those that emit the token and its log-probability."""
        first = np.cumsum(ahead) - ahead
        row = np.repeat(live, ahead)
        places = np.arange(len(row))
        frame = places + np.repeat(at - first, ahead)
        logits = self._networks.run_joiner(scores[row, frame], decoder_out[row]).reshape(len(row), -1)
        if self._penalty:
            logits[:, BLANK] -= self._penalty
        best = logits.argmax(axis=1)
        spoken = best != BLANK
        if self._networks.unk is not None:
            spoken &= best != self._networks.unk
        hit = np.minimum.reduceat(np.where(spoken, places, len(places)), first)
        emitted = hit < len(places)
        chosen = hit[emitted]
        if not chosen.size:  # most often
            return emitted, ahead, [], []
        used = np.where(emitted, hit - first + 1, ahead)
        probs = log_softmax(logits[chosen] / np.float32(self._temperature))
        tokens = best[chosen]
        return emitted, used, tokens.tolist(), probs[np.arange(len(tokens)), tokens].tolist()

    def n_best(self, state: TransducerGreedyState, n: int = 1, *, final: bool = False) -> list[Hypothesis]:
        return [state.hypothesis()]

    def restart(
        self, state: TransducerGreedyState, graph: ContextGraph | None = None
    ) -> TransducerGreedyState:
        """The decoder goes on from the last tokens if there were any, else from the beginning."""
        fresh = self.open(graph)
        if state.tokens:
            fresh.context, fresh.decoder_out = state.context, state.decoder_out
        return fresh
