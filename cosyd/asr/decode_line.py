"""What waits for the one recogniser, and which of it is next. Pure: no thread, and times are the caller's.

Finals and speculative finals come first, in the order in which their results are needed; they are never
dropped. Partials come when nothing else waits. One a source is kept, a newer one takes its place, so that
what is decoded is what was heard up to then. Those of one source get ``PARTIAL_SHARE`` of the time: after
one that took 100 ms the next begins 570 ms later at the earliest, so that on a slow machine they come less
often instead of taking more of the processor. A partial that is being decoded when a final comes is stopped,
so that no final waits for it; another source's is decoded once more, and then to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cosyd.asr.decode import Decode

FINALS_LIMIT = 32  # a final costs up to 1 s: half a minute behind, more would only be later still
# Of the wall time, per source; finals and the front end come on top. Speculations do not count: they are the
# finals of most utterances, and where speech goes on after one, its next words should not wait for seconds.
# With 0.25 words are shown sooner on a slow machine, and one source takes 43 % of a core instead of a third.
PARTIAL_SHARE = 0.15


@dataclass
class Waiting:
    """A request and when it came. ``again``: it was stopped once, which is enough."""

    decode: Decode
    since: float
    again: bool = False

    @property
    def due(self) -> float:
        return self.since + self.decode.slack_s

    @property
    def may_be_stopped(self) -> bool:
        return self.decode.kind == "partial" and not self.again


class DecodeLine:
    """For one thread at a time. Whoever puts a final in asks ``has_room`` first: the line takes it anyway."""

    def __init__(self, partial_share: float = PARTIAL_SHARE, finals_limit: int = FINALS_LIMIT) -> None:
        self._partial_share = partial_share
        self._limit = finals_limit
        self._finals: list[Waiting] = []  # bounded by finals_limit
        self._partials: dict[str, Waiting] = {}  # one a source
        self._rested: dict[str, float] = {}  # source -> when its next partial may begin
        self.coalesced = 0  # requests that a newer one made pointless

    @property
    def finals(self) -> int:
        return len(self._finals)

    @property
    def partials(self) -> int:
        return len(self._partials)

    @property
    def has_room(self) -> bool:
        """For one final more."""
        return len(self._finals) < self._limit

    @property
    def half_full(self) -> bool:
        return len(self._finals) >= self._limit // 2

    def put(self, decode: Decode, now: float) -> None:
        if decode.kind == "partial":
            self._refresh(decode, now)
        else:
            self._finals.append(Waiting(decode, now))

    def _refresh(self, decode: Decode, now: float) -> None:
        """A partial takes the place of an older one, which counts for a lost one when it was due for so long
        that both might have been shown."""
        older = self._partials.get(decode.source)
        lost = older is not None and now - older.since >= decode.pause_s
        self.coalesced += lost
        since = now if older is None or lost else older.since
        self._partials[decode.source] = Waiting(decode, since)

    def supersede(self, source: str, utt: int) -> None:
        """A final makes the partial and the speculations of its utterance that still wait pointless."""
        waiting = self._partials.get(source)
        if waiting is not None and waiting.decode.utt == utt:
            del self._partials[source]
            self.coalesced += 1
        kept = [w for w in self._finals if not _superseded(w.decode, source, utt)]
        self.coalesced += len(self._finals) - len(kept)
        self._finals = kept

    def forget(self, source: str) -> None:
        """A source is gone: its partial, if one waits, too. Its finals are still decoded."""
        self._partials.pop(source, None)
        self._rested.pop(source, None)

    def take(self, now: float) -> Waiting | None:
        """What is to be decoded next; None: nothing yet."""
        if self._finals:
            first = min(self._finals, key=lambda waiting: waiting.due)
            self._finals.remove(first)
            return first
        rested = [source for source in self._partials if self._rested.get(source, now) <= now]
        if not rested:
            return None
        return self._partials.pop(min(rested, key=lambda source: self._partials[source].since))

    def rest(self, now: float) -> float | None:
        """Seconds until a waiting partial may begin; None: none waits."""
        if not self._partials:
            return None
        return max(0.001, min(self._rested.get(source, now) for source in self._partials) - now)

    def decoded(self, decode: Decode, took_s: float, now: float) -> None:
        """A request that was taken is done."""
        if decode.kind == "partial":
            rest_s = max(took_s * (1 / self._partial_share - 1), decode.pause_s - took_s)
            self._rested[decode.source] = now + rest_s

    def stopped(self, waiting: Waiting, took_s: float, now: float) -> None:
        """A partial that was taken made way for a final. It waits again, unless that final is its own
        utterance's or something newer waits."""
        decode = waiting.decode
        self.decoded(decode, took_s, now)
        ended = {(final.decode.source, final.decode.utt) for final in self._finals}
        if decode.source in self._partials or (decode.source, decode.utt) in ended:
            self.coalesced += 1
        else:
            self._partials[decode.source] = replace(waiting, again=True)


def _superseded(decode: Decode, source: str, utt: int) -> bool:
    return decode.kind == "speculative" and decode.source == source and decode.utt == utt
