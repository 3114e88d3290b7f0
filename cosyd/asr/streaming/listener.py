"""The listener of one source for a streaming model: utterances by voice activity, text that only grows.

The surface is that of ``cosyd.asr.listener.Listener``, and so are the promises: each utterance has exactly
one Final, in order; the stable prefix never changes, in its Final neither. The difference is what is asked of
the recogniser: each block is handed over once, as it comes, and the model remembers.

::

    blocks ──► gate ──► utterance ──► Chunk after Chunk ──► Partial, as soon as the model says more
                            │  a fixed tail after speech the model rests
                            └─ endpoint: by silence, or by blanks alone where noise keeps the gate open

A long utterance is cut at a pause without a break for the model: what it has not said yet comes with the
next.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.closing import Closing, ClosingLine, abandoned
from cosyd.asr.decode import Decode
from cosyd.asr.endpoint import EndpointRules
from cosyd.asr.gate import Gate, GateChange
from cosyd.asr.hotwords import Hotword, parse_hotwords
from cosyd.asr.speech_events import SpeechEvents
from cosyd.asr.stable import StablePrefix, keep_promise
from cosyd.asr.streaming.chunk import Chunk, Ends, LiveTranscript
from cosyd.asr.utterance import ONSET_MS, Block, Utterance, concatenate, find_onset, level_db
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Checkpoint, EndReason, Partial, RecognitionEvent, SpeechEnded, Transcript

Action = Decode | RecognitionEvent

# The model alone ends an utterance when it hears nothing for so much longer than silence would have to last:
# a gate that noise keeps open would never do it, and a model that emits late must not cut people short.
BLANKS_SHARE = 1.5
PAUSE_MS = 128  # a stop consonant is shorter, a pause between words longer


class StreamingListener:
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
        limit_s: float = float("inf"),
    ) -> None:
        """``rate_hz`` is the source's; ``limit_s`` the longest utterance that the recogniser takes."""
        checkpoint = checkpoint or Checkpoint()
        self._source = source
        self._rate_hz = rate_hz
        self._block_samples = FRAME.block * rate_hz / FRAME.rate_hz
        self._limit_ms = min(limit_s * 1000, 1e9)
        self._gate = Gate(vad)
        self._kept: deque[Block] = deque()  # pre-roll; bounded by _trim
        self._utterance: Utterance | None = None
        self._sent = 0  # position in the utterance up to which the model has it
        self._trailing_s = 0.0  # as the model hears it, in the open utterance
        self._hotwords: tuple[Hotword, ...] = ()  # of the open utterance
        self._closing = ClosingLine()
        self._next_utt = checkpoint.utt
        self._next_id = 0
        self._expected: int | None = None  # source clock of the next block
        self._resume = checkpoint if checkpoint.opened else None
        self._settled = checkpoint.sample
        self._speech = SpeechEvents(checkpoint.opened)
        self.reconfigure(vad, endpoint, asr)

    def reconfigure(self, vad: VadConfig, endpoint: EndpointConfig, asr: AsrConfig) -> None:
        """Take a new configuration from the next block on; an open utterance goes on."""
        self._gate.configure(vad)
        self._rules = EndpointRules(endpoint, self._limit_ms)
        self._partials = asr.partial_ms > 0
        self._next_hotwords = parse_hotwords(asr.hotwords)[0]
        self._blanks_s = endpoint.silence_ms / 1000 * BLANKS_SHARE
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
            return Checkpoint(_first_sample(unsettled), unsettled.number, True, unsettled.stable.text)
        if self._resume is not None:
            return self._resume
        return Checkpoint(self._kept[0].sample if self._kept else self._settled, self._next_utt)

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
            self._kept.append(block)
        else:
            self._utterance.blocks.append(block)
        actions += self._follow_gate(change)
        while len(self._kept) > self._keep:
            self._kept.popleft()
        if self._utterance is not None:
            actions += self._advance(self._utterance)
        return actions

    def _jumped(self, sample: int) -> bool:
        return self._expected is not None and abs(sample - self._expected) > self._block_samples / 2

    def _follow_gate(self, change: GateChange | None) -> list[Action]:
        if change is GateChange.OPENED:
            return self._speech_started()
        utterance = self._utterance
        if utterance is not None and self._gate.is_open and self._gate.run:
            utterance.voiced(1)
        if change is GateChange.CLOSED and utterance is not None:
            return list(self._speech.end(utterance.end_sample, utterance.number))
        return []

    def _speech_started(self) -> list[Action]:
        run = self._gate.run
        if self._utterance is None:
            self._begin(run)
        else:
            self._utterance.voiced(run)
        utterance = self._utterance
        assert utterance is not None
        first = len(utterance.blocks) - run
        sample = utterance.start_sample if utterance.speech <= run else utterance.blocks[first].sample
        return list(self._speech.start(sample, utterance.number))

    def _begin(self, run: int) -> None:
        kept = list(self._kept)
        self._kept.clear()
        onset = find_onset(kept, run, self._onset_blocks)
        blocks = kept[max(0, onset - self._rules.preroll) :]
        self._open(Utterance(self._number(), kept[onset].sample, blocks))
        assert self._utterance is not None
        self._utterance.voiced(run)

    def _open(self, utterance: Utterance) -> None:
        self._utterance, self._sent, self._trailing_s = utterance, 0, 0.0
        self._hotwords = self._next_hotwords  # a change takes effect with the next utterance

    def _reopen(self, block: Block, checkpoint: Checkpoint) -> None:
        """Go on with the utterance of a listener that is gone; its audio comes once more, from its start."""
        self._resume = None
        preroll = round(self._rules.preroll * self._block_samples)
        stable = StablePrefix(checkpoint.stable)
        utterance = Utterance(self._number(), block.sample + preroll, [block], stable)
        utterance.grace = self._keep  # speech that the gate had noticed needs as long once more
        self._open(utterance)

    def _number(self) -> int:
        self._next_utt += 1
        return self._next_utt - 1

    # --- ends -----------------------------------------------------------------------------------------

    def _advance(self, utterance: Utterance) -> list[Action]:
        """What one block more makes due: the end, or audio for the model."""
        reason = self._ended(utterance)
        if reason == "longest" and self._gate.is_open:
            return self._split(utterance)
        if reason is not None:
            return self._end(utterance, reason, self._cut(utterance))
        awake = self._gate.is_open or self._gate.undecided
        until = len(utterance.blocks) if awake else self._cut(utterance)
        return [self._chunk(utterance, until)] if until > self._sent else []

    def _ended(self, utterance: Utterance) -> EndReason | None:
        reason = self._rules.decide(utterance.progress)
        if reason in ("silence", "silence_short") and self._gate.undecided:
            return None
        if reason is None and utterance.most_words and self._trailing_s >= self._blanks_s:
            return "silence"
        if reason is None and self._pauses(utterance):
            return "longest"
        return reason

    def _pauses(self, utterance: Utterance) -> bool:
        """Long enough to be cut soon, and here is a good place."""
        return len(utterance.blocks) >= self._rules.earliest_split and self._gate.quiet >= FRAME.blocks(
            PAUSE_MS
        )

    def _cut(self, utterance: Utterance) -> int:
        """Position up to which the model hears an utterance that ends as things stand."""
        return max(self._sent, min(len(utterance.blocks), self._rules.cut(utterance.speech_end)))

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

    def _split(self, utterance: Utterance) -> list[Action]:
        """Cut here; the model goes on with the next utterance as if nothing had happened."""
        sample = utterance.blocks[-1].end
        actions = self._close(utterance, "longest", len(utterance.blocks), more=True)
        following = Utterance(self._number(), sample, [])
        self._open(following)
        return [*actions, *self._speech.start(sample, following.number)]

    def _end(self, utterance: Utterance, reason: EndReason, position: int) -> list[Action]:
        """The audio up to ``position`` is the utterance; what follows is kept as pre-roll."""
        if reason == "no_speech":
            position = len(utterance.blocks)
        if self._gate.is_open:
            self._gate.reset()  # the next utterance needs a beginning of its own
        self._kept.extend(utterance.blocks[position:])
        actions = self._close(utterance, reason, position, more=False)
        self._utterance = None
        return actions

    def _close(self, utterance: Utterance, reason: EndReason, position: int, *, more: bool) -> list[Action]:
        end, resume = utterance.start_sample, utterance.start_sample
        if utterance.blocks:
            end, resume = utterance.end_sample, utterance.sample_at(position)
        decided = self._expected if self._expected is not None else end
        ended = self._speech.end(end, utterance.number)
        chunk = self._chunk(utterance, position, "segment" if more else "utterance", reason)
        self._closing.add(Closing(utterance, chunk, reason, end, resume, decided, more))
        del utterance.blocks[max(1, position) :]
        return [*ended, chunk]

    def _chunk(
        self, utterance: Utterance, until: int, ends: Ends = "", reason: EndReason | None = None
    ) -> Chunk:
        """What the model does not have yet, up to position ``until``."""
        self._next_id += 1
        blocks = utterance.blocks[self._sent : until]
        first = _first_sample(utterance)
        start = blocks[0].sample if blocks else first
        self._sent = max(self._sent, until)
        return Chunk(
            id=self._next_id,
            source=self._source,
            utt=utterance.number,
            kind="final" if ends else "partial",
            audio=concatenate(blocks),
            start_sample=start,
            end_sample=blocks[-1].end if blocks else start,
            anchor=0,
            blocks=until,
            hotwords=self._hotwords,
            reason=reason,
            origin_s=first / self._rate_hz,
            ends=ends,
        )

    # --- results in -------------------------------------------------------------------------------------

    def decoded(self, decode: Decode, transcript: Transcript) -> list[RecognitionEvent]:
        """The text of an utterance so far, or of the whole. Those that nobody waits for come to nothing."""
        if self._closing.decoded(decode, transcript, trusted=True):
            return self._release()
        utterance = self._utterance
        if utterance is None or utterance.number != decode.utt or not isinstance(transcript, LiveTranscript):
            return []
        self._trailing_s = transcript.trailing_s
        before = (utterance.transcript.text, utterance.stable.text)
        utterance.heard(decode, transcript)
        if not self._partials:
            return []
        utterance.stable.promise(transcript.stable, decode.blocks)
        return self._partial(utterance, decode, before)

    def _partial(
        self, utterance: Utterance, decode: Decode, before: tuple[str, str]
    ) -> list[RecognitionEvent]:
        stable = utterance.stable.text
        text = keep_promise(stable, utterance.transcript.text)
        if not text or (utterance.transcript.text, stable) == before:
            return []
        conf = utterance.transcript.conf
        return [Partial(utterance.number, text, stable, utterance.start_sample, decode.end_sample, conf)]

    def failed(self, decode: Decode) -> list[RecognitionEvent]:
        """The model could not do it. A final falls back on the newest partial: better than nothing."""
        return self._release() if self._closing.failed(decode) else []

    def _release(self) -> list[RecognitionEvent]:
        finals = self._closing.release()
        if finals:
            self._settled = max(self._settled or 0, finals[-1].resume_sample)
        return list(finals)


def _first_sample(utterance: Utterance) -> int:
    """Of the audio; of an utterance that has just been cut off the one before there is none yet."""
    return utterance.blocks[0].sample if utterance.blocks else utterance.start_sample
