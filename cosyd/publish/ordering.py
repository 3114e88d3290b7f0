"""What a subscriber has to do so that it gets every final exactly once and in order. No sockets here.

Live messages go in one by one; what comes out is either messages to hand on, or a ``Replay`` to ask for.
Its answer goes in before anything else. The rules:

* Each message names the newest journalled event before it (``kept``). If that is newer than the last one
  seen, what lies in between is asked for, up to this message. The subscriber has to get all journalled
  types for that; those that the user does not want are left out here.
* A counter that goes down, in another ``boot``, has begun anew: then everything kept is new.
* A message waits for the replay before it; so the order is that of ``seq``, and nothing comes twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from cosyd.publish.messages import AnyMessage, matches


@dataclass(frozen=True)
class Replay:
    """Ask for the kept events with ``since`` < seq < ``until``."""

    since: int
    until: int


class Ordering:
    """``topics``: prefixes that the user wants. ``since``: start after this ``seq``; None: with what is live.

    ``lost`` counts messages of journalled types that were missed and are not kept any more, as far as can
    be known: exact within one start of the daemon.
    """

    def __init__(self, topics: tuple[str, ...], since: int | None) -> None:
        self._topics = topics
        self._settled = since
        self._boot: str | None = None
        self._counts: dict[str, int] = {}  # n of the last message of each journalled topic of this boot
        self._from_start = (
            False  # whether this boot was followed from its start: then a new topic counts from 0
        )
        self._waiting: AnyMessage | None = None
        self._replay: Replay | None = None
        self.lost = 0

    @property
    def replay(self) -> Replay | None:
        """What has to be asked for before the next live message."""
        return self._replay

    @property
    def settled(self) -> int | None:
        """Up to this ``seq`` everything has come out of here."""
        return self._settled

    def live(self, message: AnyMessage) -> list[AnyMessage]:
        """A message from the socket. Afterwards, look at ``replay``."""
        if self._settled is None:  # the first of all
            self._settled = message.seq - 1
            self._boot = message.boot
        if message.seq <= self._settled:
            if message.boot == self._boot:
                return []
            self._settled = 0
        if message.kept <= self._settled:
            return self._pass(message)
        self._waiting = message
        self._replay = Replay(self._settled, message.seq)
        return []

    def replayed(self, events: list[AnyMessage], next_since: int, more: bool) -> list[AnyMessage]:
        """One page of the answer to ``replay``."""
        if self._replay is None or self._waiting is None:
            raise ValueError("no replay was asked for")
        for event in events:
            self._follow(event)
        if more and next_since > self._replay.since:
            self._settled = next_since
            self._replay = Replay(next_since, self._replay.until)
            return self._wanted(events)
        message, self._waiting, self._replay = self._waiting, None, None
        self._settled = message.seq - 1
        return self._wanted(events) + self._pass(message)

    def _pass(self, message: AnyMessage) -> list[AnyMessage]:
        """Hand on a message before which nothing is missing any more."""
        self._follow(message)
        return self._wanted([message])

    def _follow(self, message: AnyMessage) -> None:
        """Move on to a message, and count what is missing before it."""
        if message.boot != self._boot:
            self._from_start = self._boot is not None
            self._boot = message.boot
            self._counts = {}
        if not message.JOURNALLED:
            return
        self._settled = message.seq
        before = self._count(message.topic)
        if before is not None and self._wanted([message]):
            self.lost += max(0, message.n - before - 1)
        self._counts[message.topic] = message.n

    def _count(self, topic: str) -> int | None:
        """``n`` of the last message of a topic; None when it cannot be known."""
        return self._counts.get(topic, 0 if self._from_start else None)

    def _wanted(self, messages: list[AnyMessage]) -> list[AnyMessage]:
        return [message for message in messages if matches(message.topic, self._topics)]
