"""What every listener of a source does: which blocks are an utterance, and which events that makes.

Blocks go through the gate. Until it opens, the newest are kept as pre-roll; from then on they are an
utterance's, up to its endpoint; one that has ended waits in the closing line for its text. What is decoded of
an utterance, and when, is the part of the two kinds of listeners (``Listener``, ``StreamingListener``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.closing import Closing, ClosingLine, abandoned
from cosyd.asr.decode import Decode
from cosyd.asr.endpoint import EndpointRules
from cosyd.asr.gate import Gate, GateChange
from cosyd.asr.speech_events import SpeechEvents
from cosyd.asr.stable import StablePrefix
from cosyd.asr.utterance import ONSET_MS, Block, Utterance, find_onset, level_db
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Checkpoint, EndReason, Final, RecognitionEvent, SpeechEnded

Action: TypeAlias = Decode | RecognitionEvent


class Listening(ABC):
    """A pure state machine. Whoever inherits calls ``reconfigure`` once its own state is there."""

    def __init__(self, vad: VadConfig, rate_hz: int, checkpoint: Checkpoint | None, limit_s: float) -> None:
        checkpoint = checkpoint or Checkpoint()
        self._block_samples = FRAME.block * rate_hz / FRAME.rate_hz
        self._limit_ms = limit_s * 1000
        self._gate = Gate(vad)
        self._kept: deque[Block] = deque()  # pre-roll; bounded by _trim
        self._utterance: Utterance | None = None
        self._closing = ClosingLine()
        self._next_utt = checkpoint.utt
        self._expected: int | None = None  # source clock of the next block
        self._resume = checkpoint if checkpoint.opened else None
        self._settled = checkpoint.sample
        self._speech = SpeechEvents(checkpoint.opened)

    def reconfigure(self, vad: VadConfig, endpoint: EndpointConfig, asr: AsrConfig) -> None:
        """Take a new configuration from the next block on; an open utterance goes on."""
        self._gate.configure(vad)
        self._rules = EndpointRules(endpoint, self._limit_ms)
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
            return Checkpoint(unsettled.first_sample, unsettled.number, True, unsettled.stable.text)
        if self._resume is not None:
            return self._resume
        return Checkpoint(self._kept[0].sample if self._kept else self._settled, self._next_utt)

    # --- audio in -----------------------------------------------------------------------------------

    def accept(self, sample: int, audio: NDArray[np.float32], vad_prob: float) -> list[Action]:
        """One block, float32 [``FRAME.block``] in ±1 at 16 kHz; ``sample``: of its first one, in the source
        clock. ``vad_prob``: 0..1, that somebody speaks in it."""
        actions = self.finish("gap") if self._jumped(sample) else []
        change = self._gate.accept(vad_prob)
        self._place(self._block(sample, audio, vad_prob))
        actions += self._follow_gate(change)
        self._trim()
        if self._utterance is not None:
            actions += self._advance(self._utterance)
        return actions

    def _jumped(self, sample: int) -> bool:
        return self._expected is not None and abs(sample - self._expected) > self._block_samples / 2

    def _block(self, sample: int, audio: NDArray[np.float32], vad_prob: float) -> Block:
        self._expected = end = sample + round(self._block_samples)
        audio = np.array(audio, np.float32)  # a copy: the caller's buffer is its own
        return Block(sample, end, audio, vad_prob, self._gate.run > 0, level_db(audio))

    def _place(self, block: Block) -> None:
        """Whose audio this is: the open utterance's, that of one to be resumed, or nobody's yet."""
        if self._utterance is not None:
            self._utterance.blocks.append(block)
        elif self._resume is not None:
            self._reopen(block, self._resume)
        else:
            self._keep_block(block)

    def _keep_block(self, block: Block) -> None:
        self._kept.append(block)

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
        utterance = self._utterance
        if utterance is None:
            utterance = self._begin(run)
        else:
            utterance.voiced(run)
            utterance.settle()
        first = len(utterance.blocks) - run
        sample = utterance.start_sample if utterance.speech <= run else utterance.blocks[first].sample
        return list(self._speech.start(sample, utterance.number))

    def _speech_ended(self, utterance: Utterance) -> list[Action]:
        return list(self._speech.end(utterance.end_sample, utterance.number))

    def _begin(self, run: int) -> Utterance:
        """The newest ``run`` blocks of those kept are speech: an utterance, with its pre-roll."""
        kept = list(self._kept)
        self._kept.clear()
        onset = find_onset(kept, run, self._onset_blocks)
        preroll = min(onset, self._rules.preroll)
        utterance = Utterance(self._number(), kept[onset].sample, kept[onset - preroll :])
        utterance.voiced(run)
        self._open(utterance, preroll)
        return utterance

    def _reopen(self, block: Block, checkpoint: Checkpoint) -> None:
        """Go on with the utterance of a listener that is gone; its audio comes once more, from its start."""
        self._resume = None
        preroll = self._rules.preroll
        start_sample = block.sample + round(preroll * self._block_samples)
        utterance = Utterance(self._number(), start_sample, [block], StablePrefix(checkpoint.stable))
        utterance.grace = self._keep  # speech that the gate had noticed needs as long once more
        self._open(utterance, preroll)

    def _open(self, utterance: Utterance, preroll: int = 0) -> None:
        """``preroll``: blocks at its beginning, there or to come, in which nothing is said."""
        self._utterance = utterance

    def _number(self) -> int:
        self._next_utt += 1
        return self._next_utt - 1

    # --- ends ---------------------------------------------------------------------------------------

    def _advance(self, utterance: Utterance) -> list[Action]:
        """What one block more makes due: the end, or something to decode."""
        reason = self._ended(utterance)
        if reason == "longest" and self._gate.is_open:
            return self._split(utterance)
        if reason is not None:
            return self._end(utterance, reason, self._cut(utterance))
        return self._due(utterance)

    def _ended(self, utterance: Utterance) -> EndReason | None:
        reason = self._rules.decide(utterance.progress)
        return None if reason in ("silence", "silence_short") and self._gate.undecided else reason

    def _cut(self, utterance: Utterance) -> int:
        """Position where the audio of a final ends as things stand."""
        return min(len(utterance.blocks), self._rules.cut(utterance.speech_end))

    def finish(self, reason: EndReason) -> list[Action]:
        """End the open utterance now, whole; the next block may come from anywhere in the source clock."""
        utterance = self._utterance
        actions: list[Action] = []
        if self._resume is not None:
            actions = self._abandon(self._resume, reason)
        if utterance is not None:
            cut = len(utterance.blocks) if self._gate.undecided else self._cut(utterance)
            actions = self._end(utterance, reason, cut)
        self._gate.reset()
        self._kept.clear()
        self._settled = self._expected if self._expected is not None else self._settled
        self._expected = None
        self._resume = None
        return actions

    def _abandon(self, checkpoint: Checkpoint, reason: EndReason) -> list[Action]:
        sample = checkpoint.sample or 0
        self._speech = SpeechEvents()
        return [SpeechEnded(sample, self._number()), abandoned(checkpoint, sample, reason)]

    def _end(self, utterance: Utterance, reason: EndReason, position: int) -> list[Action]:
        """The audio up to ``position`` is the utterance; what follows is kept as pre-roll."""
        if reason == "no_speech":
            position = len(utterance.blocks)
        if self._gate.is_open:
            self._gate.reset()  # the next utterance needs a beginning of its own
        self._kept.extend(utterance.blocks[position:])
        actions = self._close(utterance, reason, position, more=False)
        del utterance.blocks[max(1, position) :]
        self._utterance = None
        return actions

    def _line_up(
        self, utterance: Utterance, decode: Decode | None, reason: EndReason, position: int, *, more: bool
    ) -> Closing:
        """Have the utterance wait for its text, in the order in which they end."""
        decided = self._expected if self._expected is not None else utterance.end_sample
        resume_sample = utterance.sample_at(position)
        closing = Closing(utterance, decode, reason, utterance.end_sample, resume_sample, decided, more)
        self._closing.add(closing)
        return closing

    def _release(self) -> list[Final]:
        """Finals whose results are there, in the order of their utterances."""
        finals = self._closing.release()
        if finals:
            self._settled = max(self._settled or 0, finals[-1].resume_sample)
        return finals

    # --- what the kinds of listeners differ in ------------------------------------------------------

    @abstractmethod
    def _due(self, utterance: Utterance) -> list[Action]:
        """What is to be decoded now that the utterance has one block more and goes on."""

    @abstractmethod
    def _split(self, utterance: Utterance) -> list[Action]:
        """Cut an utterance that is too long; somebody speaks, so the next one begins where it ends."""

    @abstractmethod
    def _close(self, utterance: Utterance, reason: EndReason, position: int, *, more: bool) -> list[Action]:
        """Ask for the text up to ``position`` and line the utterance up; ``more``: speech goes on there."""
