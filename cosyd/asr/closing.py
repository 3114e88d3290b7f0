"""Utterances that have ended and wait for their text; each becomes exactly one Final, in their order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from cosyd.asr.confidence import expected
from cosyd.asr.decode import Decode
from cosyd.asr.doubt import believed
from cosyd.asr.stable import keep_promise
from cosyd.asr.utterance import Utterance
from cosyd.asr.window import joined
from cosyd.asr.words import fitted
from cosyd.types import Checkpoint, EndReason, Final, Transcript


@dataclass
class Closing:
    """An utterance that has ended and waits for the result of its last decode (None: nothing to decode)."""

    utterance: Utterance
    decode: Decode | None
    reason: EndReason
    end_sample: int
    resume_sample: int
    decided_sample: int
    more: bool = False
    transcript: Transcript | None = None

    def settle(self, transcript: Transcript) -> None:
        """The result of the decode, on the audio since the utterance's anchor."""
        self.transcript = joined(self.utterance.settled, transcript)

    def final(self, transcript: Transcript) -> Final:
        utterance = self.utterance
        text = keep_promise(utterance.stable.text, transcript.text)
        return Final(
            utt=utterance.number,
            text=text,
            start_sample=utterance.start_sample,
            end_sample=self.end_sample,
            reason=self.reason,
            resume_sample=self.resume_sample,
            decided_sample=self.decided_sample,
            conf=expected(transcript.words, transcript.conf),
            words=fitted(transcript.words, text) if transcript.words else (),
            more=self.more,
            model=transcript.model,
            others=tuple(other for other in transcript.others if other.startswith(utterance.stable.text)),
            language=transcript.language,
            language_conf=transcript.language_conf,
        )


class ClosingLine:
    """First in, first out, whatever order the results come in.

    Bounded by the decode queue: whoever asks it for more finals than it takes has to wait.
    """

    def __init__(self) -> None:
        self._line: deque[Closing] = deque()

    def __len__(self) -> int:
        return len(self._line)

    @property
    def first(self) -> Utterance | None:
        return self._line[0].utterance if self._line else None

    def add(self, closing: Closing) -> None:
        self._line.append(closing)

    def decoded(self, decode: Decode, transcript: Transcript, *, trusted: bool = False) -> bool:
        """Take the result that an utterance waits for; False: none waits for this one.

        ``trusted``: of a model that says nothing where it hears nothing, so that nothing is doubted.
        """
        closing = self._waiting_for(decode)
        if closing is not None:
            speech = closing.utterance.speech_between(decode.anchor, decode.blocks)
            closing.settle(transcript if trusted else believed(transcript, speech))
        return closing is not None

    def failed(self, decode: Decode) -> bool:
        """There will be no result: the newest partial is better than nothing."""
        closing = self._waiting_for(decode)
        if closing is not None:
            closing.transcript = closing.utterance.transcript
        return closing is not None

    def _waiting_for(self, decode: Decode) -> Closing | None:
        return next((closing for closing in self._line if closing.decode is decode), None)

    def release(self) -> list[Final]:
        """Finals of the utterances at the head of the line whose text is there."""
        finals: list[Final] = []
        while self._line and (transcript := self._line[0].transcript) is not None:
            finals.append(self._line.popleft().final(transcript))
        return finals


def abandoned(checkpoint: Checkpoint, sample: int, reason: EndReason) -> Final:
    """The end of an utterance whose audio did not come again after a restart: what had been promised."""
    return Final(checkpoint.utt, checkpoint.stable, sample, sample, reason, sample, decided_sample=sample)
