"""The listener of one source: from blocks of audio with a speech probability to utterances with text.

A pure state machine: no thread, no clock, no network. The owner feeds blocks in (`accept`), hands the
`Decode` requests that come out to a recogniser, and brings the results back (`decoded`, `failed`).

::

    blocks ──► gate ──► utterance ──► endpoint ──► final
                            │  every partial_ms: Decode(partial) ──► Partial, stable prefix grows
                            └─ a part of the endpoint silence: Decode(speculative) ──► is the final, if nobody
                                                                                 speaks before the endpoint

When to ask for a partial or a speculative result, and what to make of it, is `IncrementalDecoder`'s part;
which blocks are an utterance, `Listening`'s.
What a final hears ends a fixed ``tail`` after speech, so the speculative result *is* the final result. It is
promised that: each utterance has exactly one Final; finals come in order and their audio does not overlap;
the stable prefix of an utterance never changes, in its Final neither.
"""

from __future__ import annotations

from cosyd.asr.decode import Decode
from cosyd.asr.incremental import IncrementalDecoder
from cosyd.asr.listening import Action, Listening
from cosyd.asr.utterance import Utterance
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.types import Checkpoint, EndReason, RecognitionEvent, Transcript

LIMIT_S = 30.0  # of a recogniser that names none


class Listener(Listening):
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
        super().__init__(vad, rate_hz, checkpoint, limit_s)
        self._decoder = IncrementalDecoder(source, rate_hz)
        self.reconfigure(vad, endpoint, asr)

    def reconfigure(self, vad: VadConfig, endpoint: EndpointConfig, asr: AsrConfig) -> None:
        """Take a new configuration from the next block on; an open utterance goes on."""
        super().reconfigure(vad, endpoint, asr)
        self._decoder.configure(asr, self._rules)

    # --- audio in -----------------------------------------------------------------------------------

    def _open(self, utterance: Utterance, preroll: int = 0) -> None:
        super()._open(utterance, preroll)
        utterance.asked = utterance.answered = preroll  # the first partial hears partial_ms of speech

    def _due(self, utterance: Utterance) -> list[Action]:
        decode = self._decoder.due(utterance, self._gate)
        return [] if decode is None else [decode]

    # --- ends -----------------------------------------------------------------------------------------

    def _split(self, utterance: Utterance) -> list[Action]:
        """Cut at the best pause; the rest is the beginning of the next utterance, without a break."""
        blocks = utterance.blocks
        probs, levels_db = [b.prob for b in blocks], [b.level_db for b in blocks]
        position = self._rules.split(probs, levels_db, utterance.stable.until)
        utterance.speech_end = min(utterance.speech_end, position)
        rest = blocks[position:]
        actions = self._close(utterance, "longest", position, more=True)
        sample = rest[0].sample if rest else blocks[-1].end
        del blocks[position:]
        following = Utterance(self._number(), sample, rest)
        following.recount()
        self._open(following)
        return [*actions, *self._speech.start(sample, following.number)]

    def _close(self, utterance: Utterance, reason: EndReason, position: int, *, more: bool) -> list[Action]:
        actions = self._speech_ended(utterance)
        closing = self._line_up(utterance, None, reason, position, more=more)
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
            return list(self._release())
        utterance = self._utterance
        if utterance is None or utterance.number != decode.utt:
            return []
        return list(self._decoder.decoded(utterance, decode, transcript))

    def failed(self, decode: Decode) -> list[RecognitionEvent]:
        """The recogniser could not do it. A final falls back on the newest partial: better than nothing."""
        if self._closing.failed(decode):
            return list(self._release())
        if self._utterance is not None:
            self._decoder.failed(self._utterance, decode)
        return []
