"""Incremental decoding: what of an utterance is decoded, and when, and what is made of the results.

*Partials* show what has been said so far and let the stable prefix grow. A *speculation* is on the very
audio that the final would hear if nobody speaks any more, so its result is the final's; if speech does go
on, what it said can settle the utterance up to there. Asks and is told; it has no thread and no queue.
"""

from __future__ import annotations

from cosyd.asr.decode import Decode, DecodeKind
from cosyd.asr.doubt import believed
from cosyd.asr.endpoint import EndpointRules
from cosyd.asr.gate import Gate
from cosyd.asr.hotwords import Hotword, parse_hotwords
from cosyd.asr.stable import keep_promise
from cosyd.asr.utterance import Utterance, concatenate
from cosyd.asr.window import Window
from cosyd.config.schema import AsrConfig
from cosyd.spec import FRAME
from cosyd.types import EndReason, Partial, Transcript

REFRESH_MS = 64  # a partial that waits is asked for again so often, with what was heard since


class IncrementalDecoder:
    """Makes the requests of one source and takes in the results of its open utterance."""

    def __init__(self, source: str, rate_hz: int = FRAME.rate_hz) -> None:
        """``rate_hz``: of the source's clock."""
        self._source = source
        self._rate_hz = rate_hz
        self._next_id = 0
        self._hotwords: tuple[Hotword, ...] = ()  # of the utterance ``_favoured_in``
        self._favoured_in = -1

    def configure(self, asr: AsrConfig, rules: EndpointRules) -> None:
        """To be called before anything else, and at every change from then on."""
        self._rules = rules
        self._partials = asr.partial_ms > 0
        self._next_hotwords = parse_hotwords(asr.hotwords)[0]
        self._words = asr.words
        # Without partials the rule no_speech still has to ask now and then what has been said.
        self._partial_blocks = FRAME.blocks(asr.partial_ms) if self._partials else rules.no_speech
        self._refresh_blocks = FRAME.blocks(REFRESH_MS) if self._partials else rules.no_speech
        self._pause_s = asr.partial_ms / 1000

    # --- requests ---

    def due(self, utterance: Utterance, gate: Gate) -> Decode | None:
        """What is to be decoded now that the utterance has one block more."""
        if not gate.is_open and not gate.undecided and self._may_speculate(utterance):
            return self._speculate(utterance)
        if gate.is_open and self._partial_due(utterance):
            return self._ask_partial(utterance)
        return None

    def _partial_due(self, utterance: Utterance) -> bool:
        """Once there is enough that no result has heard; and again, with what has come since, until there is
        a result: the queue decodes the newest."""
        heard = len(utterance.blocks)
        fresh = self._refresh_blocks
        return heard - utterance.answered >= self._partial_blocks and heard - utterance.asked >= fresh

    def final(self, utterance: Utterance, position: int, reason: EndReason, *, padded: bool) -> Decode:
        """Up to ``position``; ``padded``: with silence as far as the usual tail."""
        padding = (self._cut(utterance) - position) * FRAME.block if padded else 0
        return self._request(utterance, "final", position, padding=padding, reason=reason)

    def _cut(self, utterance: Utterance) -> int:
        return self._rules.cut(utterance.speech_end)

    def _may_speculate(self, utterance: Utterance) -> bool:
        return (
            utterance.quiet >= self._rules.tail(utterance.speech_end)
            and not self._speculated(utterance)
            and utterance.failed_cut != self._cut(utterance)
        )

    def _speculated(self, utterance: Utterance) -> bool:
        """Whether the newest speculation is on what the final would hear as things stand."""
        speculation = utterance.speculation
        return speculation is not None and speculation.blocks == self._cut(utterance)

    def _speculate(self, utterance: Utterance) -> Decode:
        slack = self._rules.slack(utterance.speech_end) * FRAME.block_ms / 1000
        decode = self._request(utterance, "speculative", self._cut(utterance), slack_s=slack)
        utterance.speculation, utterance.speculated = decode, None
        return decode

    def _ask_partial(self, utterance: Utterance) -> Decode:
        utterance.asked = len(utterance.blocks)
        return self._request(
            utterance, "partial", utterance.asked, window=utterance.window, pause_s=self._pause_s
        )

    def _request(
        self,
        utterance: Utterance,
        kind: DecodeKind,
        position: int,
        *,
        slack_s: float = 0.0,
        pause_s: float = 0.0,
        padding: int = 0,
        reason: EndReason | None = None,
        window: Window | None = None,
    ) -> Decode:
        """On the audio of a ``window``, for the next one if that is full; None: all since the anchor.

        A final has no draft: what it says depends on its audio alone, not on when which partials came.
        """
        self._next_id += 1
        first, said = (window.start, window.said) if window else (utterance.anchor, Transcript(""))
        blocks = utterance.blocks[first:position]
        return Decode(
            id=self._next_id,
            source=self._source,
            utt=utterance.number,
            kind=kind,
            audio=concatenate(blocks, padding),
            start_sample=blocks[0].sample,
            end_sample=blocks[-1].end,
            anchor=utterance.anchor,
            blocks=position,
            slack_s=slack_s,
            pause_s=pause_s,
            prompt=utterance.prompt(said.text),
            draft=utterance.draft_after(said.tokens) if kind == "partial" else (),
            reason=reason,
            hotwords=self._hotwords_of(utterance),
            words=window.full(position) if window else self._words,
            origin_s=blocks[0].sample / self._rate_hz,
            window=window,
        )

    def _hotwords_of(self, utterance: Utterance) -> tuple[Hotword, ...]:
        """A change takes effect with the next utterance: in the middle of one, results would contradict."""
        if utterance.number != self._favoured_in:
            self._favoured_in, self._hotwords = utterance.number, self._next_hotwords
        return self._hotwords

    # --- results ---

    def decoded(self, utterance: Utterance, decode: Decode, transcript: Transcript) -> list[Partial]:
        """A result on the open utterance. One that is older than what came already comes to nothing."""
        if decode.id <= utterance.newest:
            return []
        utterance.newest = decode.id
        utterance.answered = decode.blocks
        first = decode.window.start if decode.window else decode.anchor
        transcript = believed(transcript, utterance.speech_between(first, decode.blocks))
        if decode is utterance.speculation:
            utterance.speculated = transcript
        if decode.anchor != utterance.anchor:
            return []  # asked before the utterance was settled up to its anchor
        utterance.heard(decode, transcript)
        # A final that is under way was asked to begin with what is stable now: nothing may be added.
        if self._partials and not self._speculated(utterance):
            utterance.stable.add(decode.blocks, utterance.transcript, self._rules.earliest_split)
        utterance.settle()
        return self._partial(utterance, decode) if self._partials else []

    def failed(self, utterance: Utterance, decode: Decode) -> None:
        """A speculation that failed is not tried again; the endpoint asks for a final."""
        utterance.answered = max(utterance.answered, decode.blocks)
        if utterance.speculation is decode:
            utterance.speculation = None
            utterance.failed_cut = decode.blocks

    def _partial(self, utterance: Utterance, decode: Decode) -> list[Partial]:
        stable, newest = utterance.stable.text, utterance.transcript
        at = (decode.end_sample - utterance.start_sample) / self._rate_hz
        text = utterance.screen.show(keep_promise(stable, newest.text), newest.sure, stable, at)
        if not text or (text, stable) == utterance.shown:
            return []
        utterance.shown = text, stable
        conf = newest.conf
        return [Partial(utterance.number, text, stable, utterance.start_sample, decode.end_sample, conf)]
