"""The decode queue on a clock of processor time: what a machine that does nothing else would show, and when.

The order of decodes and the rests between them are the daemon's own (``DecodeLine``); each decode is really
done, on one thread, and its result comes as much later as the processor worked for it. Audio goes on
meanwhile, as with a second core for all the rest. So a whole recording takes as long as its decodes, a busy
machine spoils little, and two runs differ only by what the processor's speed differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cosyd.asr.attempt import attempt
from cosyd.asr.decode import Decode
from cosyd.asr.decode_line import PARTIAL_SHARE, DecodeLine, Waiting
from cosyd.asr.recognizer import SegmentRecognizer
from cosyd.types import Transcript


@dataclass(frozen=True)
class Came:
    """A result and when it came, in seconds of the recording."""

    when: float
    decode: Decode
    transcript: Transcript | None


@dataclass(frozen=True)
class _UnderWay:
    """A decode that began at ``begun``; what will come of it is known already."""

    waiting: Waiting
    begun: float
    came: Came


class VirtualQueue:
    """Times are seconds of the recording and must not go back. ``cost``: a clock of the processor's work."""

    def __init__(
        self,
        recognizer: SegmentRecognizer,
        *,
        partial_share: float = PARTIAL_SHARE,
        cost: Callable[[], float] = time.process_time,
    ) -> None:
        self._recognizer = recognizer
        self._line = DecodeLine(partial_share)
        self._cost = cost
        self._now = 0.0
        self._under_way: _UnderWay | None = None
        self.busy_s = 0.0

    def submit(self, decode: Decode, now: float) -> None:
        """To be called after everything up to ``now`` was taken with ``until``."""
        self._now = max(self._now, now)
        if decode.kind != "partial":
            self._line.supersede(decode.source, decode.utt)
        self._line.put(decode, now)
        if decode.kind != "partial":
            self._stop_partial(now)

    def _stop_partial(self, now: float) -> None:
        stopped = self._under_way
        if stopped is not None and stopped.waiting.may_be_stopped:
            self._line.stopped(stopped.waiting, now - stopped.begun, now)
            self.busy_s -= stopped.came.when - now
            self._under_way = None

    def until(self, now: float) -> Iterator[Came]:
        """Results that come before ``now``, each as soon as it is there."""
        while self._begin(now):
            done = self._under_way
            if done is None or done.came.when > now:
                break
            self._now, self._under_way = done.came.when, None
            self._line.decoded(done.came.decode, self._now - done.begun, self._now)
            yield done.came
        self._now = max(self._now, now)

    def _begin(self, now: float) -> bool:
        """Have a decode under way; False: there is none to begin before ``now``."""
        while self._under_way is None:
            waiting = self._line.take(self._now)
            if waiting is not None:
                self._under_way = _UnderWay(waiting, self._now, self._decode(waiting.decode))
                break
            rest_s = self._line.rest(self._now)
            if rest_s is None or self._now + rest_s > now:
                return False
            self._now += rest_s
        return True

    def _decode(self, decode: Decode) -> Came:
        begun = self._cost()
        outcome = attempt(self._recognizer, decode)
        took_s = self._cost() - begun
        self.busy_s += took_s
        return Came(self._now + took_s, decode, outcome.transcript)
