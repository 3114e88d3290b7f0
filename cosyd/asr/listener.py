"""The listener of one source: from blocks of audio with a speech probability to utterances with text.

A pure state machine: no thread, no clock, no network. The owner feeds blocks in (`accept`), hands the
`Decode` requests that come out to a recogniser, and brings the results back (`decoded`, `failed`).

::

    blocks ──► gate ──► utterance ──► endpoint ──► final
                            │  every partial_ms: Decode(partial) ──► Partial, stable prefix grows
                            └─ half of the endpoint silence: Decode(speculative) ──► is the final, if nobody
                                                                                 speaks before the endpoint

When to ask for a partial or a speculative result, and what to make of it, is `IncrementalDecoder`'s part.
What a final hears ends a fixed ``tail`` after speech, so the speculative result *is* the final result. It is
promised that: each utterance has exactly one Final; finals come in order and their audio does not overlap;
the stable prefix of an utterance never changes, in its Final neither.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.closing import Closing, ClosingLine, abandoned
from cosyd.asr.decode import Decode
from cosyd.asr.endpoint import EndpointRules
from cosyd.asr.gate import Gate, GateChange
from cosyd.asr.incremental import IncrementalDecoder
from cosyd.asr.speech_events import SpeechEvents
from cosyd.asr.stable import StablePrefix
from cosyd.asr.utterance import CONTEXT_MS, ONSET_MS, Block, Context, Utterance, find_onset, level_db
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Checkpoint, EndReason, RecognitionEvent, SpeechEnded, Transcript

Action = Decode | RecognitionEvent

LIMIT_S = 30.0  # of a recogniser that names none


class Listener:
    """See the module. ``checkpoint``: where a listener that is gone had come to."""

    def __init__(
        self,
        vad: VadConfig,
        endpoint: EndpointConfig,
        asr: AsrConfig,
        rate_hz: int,
        checkpoint: Checkpoint | None = None,
        *,
        source: str = "",
        limit_s: float = LIMIT_S,
    ) -> None:
        """``rate_hz`` is the source's; ``limit_s`` the longest audio that the recogniser takes."""
        checkpoint = checkpoint or Checkpoint()
        self._block_samples = FRAME.block * rate_hz / FRAME.rate_hz
        self._limit_ms = limit_s * 1000
        self._gate = Gate(vad)
        self._kept: deque[Block] = deque()  # pre-roll; bounded by _trim
        self._utterance: Utterance | None = None
        self._decoder = IncrementalDecoder(source, rate_hz)
        self._closing = ClosingLine()
        self._context: Context | None = None  # the utterance before, while it is fresh
        self._next_utt = checkpoint.utt
        self._expected: int | None = None  # source clock of the next block
        self._resume = checkpoint if checkpoint.opened else None
        self._settled = checkpoint.sample
        self._speech = SpeechEvents(checkpoint.opened)
        self.reconfigure(vad, endpoint, asr)

    def reconfigure(self, vad: VadConfig, endpoint: EndpointConfig, asr: AsrConfig) -> None:
        """Take a new configuration from the next block on; an open utterance goes on."""
        self._gate.configure(vad)
        self._rules = EndpointRules(endpoint, self._limit_ms)
        self._decoder.configure(asr, self._rules)
        self._onset_blocks = FRAME.blocks(ONSET_MS)
        self._keep = self._rules.preroll + self._onset_blocks + FRAME.blocks(vad.min_speech_ms) + 1

    @property
    def pending(self) -> int:
        """Utterances that have ended and wait for their result."""
        return len(self._closing)

    @property
    def idle(self) -> bool:
        """Nobody speaks or may have begun to, and nobody waits for a result."""
        return self._utterance is None and self._resume is None and not self._gate.run and not self._closing

    @property
    def checkpoint(self) -> Checkpoint:
        """Where to take up if this listener were gone now."""
        unsettled = self._closing.first or self._utterance
        if unsettled is not None:
            start = unsettled.blocks[0].sample
            return Checkpoint(start, unsettled.number, True, unsettled.stable.text)
        if self._resume is not None:
            return self._resume
        start_kept = self._kept[0].sample if self._kept else self._settled
        return Checkpoint(start_kept, self._next_utt)

    # --- audio in -----------------------------------------------------------------------------------

    def accept(self, sample: int, audio: NDArray[np.float32], vad_prob: float) -> list[Action]:
        """One block of ``FRAME.block`` samples whose first has index ``sample`` in the source clock."""
        actions = self.finish("gap") if self._jumped(sample) else []
        change = self._gate.accept(vad_prob)
        end = sample + round(self._block_samples)
        self._expected = end
        audio = np.array(audio, np.float32)  # a copy: the caller's buffer is its own
        block = Block(sample, end, audio, vad_prob, self._gate.run > 0, level_db(audio))
        if self._utterance is None and self._resume is not None:
            self._reopen(block, self._resume)
        elif self._utterance is None:
            self._keep_block(block)
        else:
            self._utterance.blocks.append(block)
        actions += self._follow_gate(change)
        self._trim()
        if self._utterance is not None:
            actions += self._advance(self._utterance)
        return actions

    def _jumped(self, sample: int) -> bool:
        return self._expected is not None and abs(sample - self._expected) > self._block_samples / 2

    def _keep_block(self, block: Block) -> None:
        self._kept.append(block)
        if self._context is not None:
            self._context.blocks.append(block)
            if not self._context.fresh:
                self._context = None

    def _trim(self) -> None:
        while len(self._kept) > self._keep:
            self._kept.popleft()

    def _follow_gate(self, change: GateChange | None) -> list[Action]:
        if change is GateChange.OPENED:
            return self._speech_started()
        utterance = self._utterance
        if utterance is not None and self._gate.is_open and self._gate.run:
            utterance.voiced(1)
        if change is GateChange.CLOSED and utterance is not None:
            return self._speech_ended(utterance)
        return []

    def _speech_started(self) -> list[Action]:
        run = self._gate.run
        if self._utterance is None:
            self._utterance = self._open(run)
        else:
            self._utterance.voiced(run)
            self._utterance.settle()
        utterance = self._utterance
        first = len(utterance.blocks) - run
        sample = utterance.start_sample if utterance.speech <= run else utterance.blocks[first].sample
        return list(self._speech.start(sample, utterance.number))

    def _speech_ended(self, utterance: Utterance) -> list[Action]:
        return list(self._speech.end(utterance.end_sample, utterance.number))

    def _open(self, run: int) -> Utterance:
        kept = list(self._kept)
        self._kept.clear()
        onset = find_onset(kept, run, self._onset_blocks)
        utterance = Utterance(self._number(), kept[onset].sample, kept[max(0, onset - self._rules.preroll) :])
        utterance.voiced(run)
        utterance.context, self._context = self._context, None
        utterance.asked = min(onset, self._rules.preroll)  # the first partial hears partial_ms of speech
        return utterance

    def _reopen(self, block: Block, checkpoint: Checkpoint) -> None:
        """Go on with the utterance of a listener that is gone; its audio comes once more, from its start."""
        self._resume = None
        preroll = round(self._rules.preroll * self._block_samples)
        stable = StablePrefix(checkpoint.stable)
        self._utterance = Utterance(self._number(), block.sample + preroll, [block], stable)
        self._utterance.asked = self._rules.preroll
        self._utterance.grace = self._keep  # speech that the gate had noticed needs as long once more

    def _number(self) -> int:
        self._next_utt += 1
        return self._next_utt - 1

    # --- ends -----------------------------------------------------------------------------------------

    def _advance(self, utterance: Utterance) -> list[Action]:
        """What one block more makes due: the end, or something to decode."""
        reason = self._rules.decide(utterance.progress)
        if reason in ("silence", "silence_short") and self._gate.undecided:
            reason = None
        if reason == "longest" and self._gate.is_open:
            return self._split(utterance)
        if reason is not None:
            return self._end(utterance, reason, self._cut(utterance))
        decode = self._decoder.due(utterance, self._gate)
        return [] if decode is None else [decode]

    def _cut(self, utterance: Utterance) -> int:
        """Position where the audio of a final ends as things stand."""
        return min(len(utterance.blocks), self._rules.cut(utterance.speech_end))

    def finish(self, reason: EndReason) -> list[Action]:
        """End the open utterance now, whole; the next block may come from anywhere in the source clock.

        Audio that ends before the usual tail is followed by silence: models lose the last word otherwise.
        """
        utterance = self._utterance
        actions: list[Action] = []
        if self._resume is not None:
            actions = self._abandon(self._resume, reason)
        if utterance is not None:
            cut = len(utterance.blocks) if self._gate.undecided else self._cut(utterance)
            actions = self._end(utterance, reason, cut)
        self._gate.reset()
        self._kept.clear()
        self._context = None
        self._settled = self._expected if self._expected is not None else self._settled
        self._expected = None
        self._resume = None
        return actions

    def _abandon(self, checkpoint: Checkpoint, reason: EndReason) -> list[Action]:
        sample = checkpoint.sample or 0
        self._speech = SpeechEvents()
        return [SpeechEnded(sample, self._number()), abandoned(checkpoint, sample, reason)]

    def _split(self, utterance: Utterance) -> list[Action]:
        """Cut at the best pause; the rest is the beginning of the next utterance, without a break."""
        blocks = utterance.blocks
        probs, levels_db = [b.prob for b in blocks], [b.level_db for b in blocks]
        position = self._rules.split(probs, levels_db, utterance.stable.until)
        utterance.speech_end = min(utterance.speech_end, position)
        rest = utterance.blocks[position:]
        actions = self._close(utterance, "longest", position, more=True)
        sample = rest[0].sample if rest else utterance.blocks[-1].end
        del utterance.blocks[position:]
        self._utterance = Utterance(self._number(), sample, rest)
        self._utterance.recount()
        return [*actions, *self._speech.start(sample, self._utterance.number)]

    def _end(self, utterance: Utterance, reason: EndReason, position: int) -> list[Action]:
        """The audio up to ``position`` is the utterance; what follows is kept as pre-roll."""
        if reason == "no_speech":
            position = len(utterance.blocks)
        if self._gate.is_open:
            self._gate.reset()  # the next utterance needs a beginning of its own
        rest = utterance.blocks[position:]
        self._kept.extend(rest)
        if position <= FRAME.blocks(CONTEXT_MS) and not utterance.anchor and reason != "no_speech":
            self._context = Context(list(utterance.blocks), position)
        actions = self._close(utterance, reason, position, more=False, context=self._context)
        del utterance.blocks[position:]
        self._utterance = None
        return actions

    def _close(
        self,
        utterance: Utterance,
        reason: EndReason,
        position: int,
        *,
        more: bool,
        context: Context | None = None,
    ) -> list[Action]:
        actions = self._speech_ended(utterance)
        resume_sample = utterance.sample_at(position)
        decided = self._expected if self._expected is not None else utterance.end_sample
        closing = Closing(utterance, None, reason, utterance.end_sample, resume_sample, decided, more)
        closing.context = context
        self._closing.add(closing)
        unheard = reason == "no_speech" and utterance.most_words == 0
        if unheard or not utterance.speech_between(utterance.anchor, position):
            closing.transcript = utterance.settled
        elif utterance.speculation is not None and utterance.speculation.blocks == position and not more:
            closing.decode = utterance.speculation
            if utterance.speculated is not None:
                closing.settle(utterance.speculated)
        else:
            closing.decode = self._decoder.final(utterance, position, reason, padded=not more)
            actions.append(closing.decode)
        return [*actions, *self._release()]

    # --- results in -------------------------------------------------------------------------------------

    def decoded(self, decode: Decode, transcript: Transcript) -> list[RecognitionEvent]:
        """The result of a request. Those that nobody waits for any more come to nothing."""
        if self._closing.decoded(decode, transcript):
            return self._release()
        utterance = self._utterance
        if utterance is None or utterance.number != decode.utt:
            return []
        return list(self._decoder.decoded(utterance, decode, transcript))

    def failed(self, decode: Decode) -> list[RecognitionEvent]:
        """The recogniser could not do it. A final falls back on the newest partial: better than nothing."""
        if self._closing.failed(decode):
            return self._release()
        if self._utterance is not None:
            self._decoder.failed(self._utterance, decode)
        return []

    def _release(self) -> list[RecognitionEvent]:
        """Finals whose results are there, in the order of their utterances."""
        finals = self._closing.release()
        if finals:
            self._settled = max(self._settled or 0, finals[-1].resume_sample)
        return list(finals)
