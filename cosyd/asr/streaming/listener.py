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

from cosyd.asr.decode import Decode
from cosyd.asr.hotwords import Hotword, parse_hotwords
from cosyd.asr.listening import Action, Listening
from cosyd.asr.stable import keep_promise
from cosyd.asr.streaming.chunk import Chunk, Ends, LiveTranscript
from cosyd.asr.utterance import Utterance, concatenate
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Checkpoint, EndReason, Partial, RecognitionEvent, Transcript

# The model alone ends an utterance when it hears nothing for so much longer than silence would have to last:
# a gate that noise keeps open would never do it, and a model that emits late must not cut people short.
BLANKS_SHARE = 1.5
PAUSE_MS = 128  # a stop consonant is shorter, a pause between words longer


class StreamingListener(Listening):
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
        super().__init__(vad, rate_hz, checkpoint, limit_s)
        self._source = source
        self._rate_hz = rate_hz
        self._sent = 0  # position in the utterance up to which the model has it
        self._trailing_s = 0.0  # as the model hears it, in the open utterance
        self._hotwords: tuple[Hotword, ...] = ()  # of the open utterance
        self._next_id = 0
        self.reconfigure(vad, endpoint, asr)

    def reconfigure(self, vad: VadConfig, endpoint: EndpointConfig, asr: AsrConfig) -> None:
        """Take a new configuration from the next block on; an open utterance goes on."""
        super().reconfigure(vad, endpoint, asr)
        self._partials = asr.partial_ms > 0
        self._next_hotwords = parse_hotwords(asr.hotwords)[0]
        self._words = asr.words  # of a second pass, whose model has to be asked for them
        self._blanks_s = endpoint.silence_ms / 1000 * BLANKS_SHARE

    # --- audio in -----------------------------------------------------------------------------------

    def _open(self, utterance: Utterance, preroll: int = 0) -> None:
        super()._open(utterance, preroll)
        self._sent, self._trailing_s = 0, 0.0
        self._hotwords = self._next_hotwords  # a change takes effect with the next utterance

    def _due(self, utterance: Utterance) -> list[Action]:
        awake = self._gate.is_open or self._gate.undecided
        until = len(utterance.blocks) if awake else self._cut(utterance)
        return [self._chunk(utterance, until)] if until > self._sent else []

    # --- ends -----------------------------------------------------------------------------------------

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
        long = len(utterance.blocks) >= self._rules.earliest_split
        return long and self._gate.quiet >= FRAME.blocks(PAUSE_MS)

    def _cut(self, utterance: Utterance) -> int:
        """Position up to which the model hears an utterance that ends as things stand."""
        return max(self._sent, super()._cut(utterance))

    def _split(self, utterance: Utterance) -> list[Action]:
        """Cut here; the model goes on with the next utterance as if nothing had happened."""
        sample = utterance.blocks[-1].end
        actions = self._close(utterance, "longest", len(utterance.blocks), more=True)
        following = Utterance(self._number(), sample, [])
        self._open(following)
        return [*actions, *self._speech.start(sample, following.number)]

    def _close(self, utterance: Utterance, reason: EndReason, position: int, *, more: bool) -> list[Action]:
        ended = self._speech_ended(utterance)
        chunk = self._chunk(utterance, position, "segment" if more else "utterance", reason)
        self._line_up(utterance, chunk, reason, position, more=more)
        return [*ended, chunk]

    def _chunk(
        self, utterance: Utterance, until: int, ends: Ends = "", reason: EndReason | None = None
    ) -> Chunk:
        """What the model does not have yet, up to position ``until``."""
        self._next_id += 1
        blocks = utterance.blocks[self._sent : until]
        first = utterance.first_sample
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
            words=self._words,
            reason=reason,
            origin_s=first / self._rate_hz,
            ends=ends,
        )

    # --- results in -------------------------------------------------------------------------------------

    def decoded(self, decode: Decode, transcript: Transcript) -> list[RecognitionEvent]:
        """The text of an utterance so far, or of the whole. Those that nobody waits for come to nothing."""
        if self._closing.decoded(decode, transcript, trusted=True):
            return list(self._release())
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
        return list(self._release()) if self._closing.failed(decode) else []
