"""The daemon's side of the events socket: one counter, the journal, an XPUB that never waits.

Everything happens in the thread of the event loop. A send on an XPUB socket does not block: a subscriber
whose queue is full misses the message, and nobody else notices. So ``publish`` is a plain function.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections import Counter as Tally
from dataclasses import dataclass

import msgspec
import zmq

from cosyd.config.paths import Paths, events_endpoint
from cosyd.config.schema import Config
from cosyd.errors import PublishError
from cosyd.publish import curve
from cosyd.publish.address import Binding, bind
from cosyd.publish.counter import Counter
from cosyd.publish.journal import PAGE_EVENTS, Journal
from cosyd.publish.messages import DAEMON, Health, Message, State, encode, matches

STATE_REPEAT_S = 10.0  # so that a subscriber tells silence from death, and notices a loss before silence
LINGER_MS = 1_000  # at the end: time for the last finals to leave, should a subscriber be slow
COMPLAIN_S = 60.0  # least pause between two reports of a failing journal
MAX_INBOUND_BYTES = 4_096  # longest thing a subscriber may send us: a subscription, a handshake
MAX_SUBSCRIPTIONS_A_TURN = 1_000  # read from subscribers before the loop gets its turn

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublisherStatistics:
    """``published``: messages by type. ``unjournalled``: finals and events that could not be kept."""

    address: str
    boot: str
    seq: int
    published: dict[str, int]
    unjournalled: int
    subscriptions: int


class Publisher:
    """``with Publisher(config, paths) as publisher`` in a running event loop.

    Entering binds the socket and opens the journal; raises PublishError when the address is taken, must
    not be bound, or a key is missing. A journal that cannot be opened is no reason not to start.
    """

    def __init__(self, config: Config, paths: Paths) -> None:
        section = config.publish
        self.boot = uuid.uuid4().hex[:12]
        self._address = events_endpoint(config, paths)
        self._curve = section.curve and self._address.startswith("tcp://")
        self._high_water = section.high_water
        self._keys = paths.keys
        self._state_folder = paths.state
        self._journal = Journal(
            paths.state / "journal.db", max_age_h=section.journal_max_age_h, max_mb=section.journal_max_mb
        )
        self._resources = contextlib.ExitStack()
        self._binding: Binding | None = None
        self._counter = Counter(None, 0)
        self._kept = 0
        self._anchored = False  # whether the journal's newest seq is known
        self._topics: Tally[str] = Tally()  # bounded by types times configured sources
        self._published: Tally[str] = Tally()
        self._states: dict[str, State] = {}
        self._failing = False
        self._complain_at = 0.0
        self._unjournalled = 0
        self._subscriptions = 0
        self._repeat: asyncio.TimerHandle | None = None

    # --- opening and closing ---------------------------------------------------------------------------

    def __enter__(self) -> Publisher:
        with contextlib.ExitStack() as stack:
            self._open(stack)
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the last messages ``LINGER_MS`` to leave, then close everything. Idempotent."""
        self._resources.close()

    def _open(self, stack: contextlib.ExitStack) -> None:
        loop = asyncio.get_running_loop()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        keys = curve.server_keys(self._keys) if self._curve else None
        if keys is not None:
            stack.enter_context(curve.authenticator(context, self._keys))
        binding = bind(self._socket(context), self._address, "publish.endpoint", keys)
        stack.callback(binding.close, LINGER_MS)
        self._binding = binding
        stack.callback(self._forget_binding)
        self._counter = Counter.open(self._state_folder / "journal.seq")
        stack.callback(self._counter.close)
        stack.callback(self._journal.close)
        if failure := self._anchor():
            self._complain(failure)
        descriptor = int(binding.socket.getsockopt(zmq.FD))
        loop.add_reader(descriptor, self._read_subscriptions)
        stack.callback(loop.remove_reader, descriptor)
        self._repeat = loop.call_later(STATE_REPEAT_S, self._repeat_states)
        stack.callback(self._stop_repeating)

    def _socket(self, context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
        socket = context.socket(zmq.XPUB)
        socket.setsockopt(
            zmq.XPUB_VERBOSER, 1
        )  # tell of each subscription and its end, not of the first only
        socket.setsockopt(zmq.SNDHWM, self._high_water)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_INBOUND_BYTES)
        return socket

    def _anchor(self) -> PublishError | None:
        """Go on after the journal's newest event; gives the error when the journal cannot be opened (yet)."""
        try:
            self._kept = self._journal.newest()
        except PublishError as error:
            return error
        self._counter.at_least(self._kept)
        self._anchored = True
        return None

    def _forget_binding(self) -> None:
        self._binding = None

    # --- publishing ------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """The address that is bound, with the real port."""
        return self._binding.address if self._binding else self._address

    def publish(self, message: Message) -> int:
        """Stamp and send a message; finals, device and health events are journalled first.

        Never waits. Returns the message's ``seq``. Raises PublishError when the publisher is closed.
        """
        seq = self._send(message)
        self._read_subscriptions()  # the send may have taken the descriptor's edge (see ZMQ_FD)
        return seq

    def _send(self, message: Message) -> int:
        if self._binding is None:
            raise PublishError(f"the publisher on {self._address} is closed")
        if message.JOURNALLED and not self._anchored:
            self._anchor()
        stamped = self._stamp(message)
        topic, data = encode(stamped)
        failure = self._keep(stamped, topic, data) if stamped.JOURNALLED else None
        if isinstance(stamped, State):
            self._states[stamped.source] = stamped
        self._binding.socket.send_multipart([topic, data], zmq.NOBLOCK)
        self._published[stamped.type] += 1
        if failure is not None:
            self._complain(failure)
        elif self._failing and stamped.JOURNALLED:
            self._recovered()
        return stamped.seq

    def forget(self, source: str) -> None:
        """A source was removed from the configuration: its state is not sent any more."""
        self._states.pop(source, None)

    def replay(
        self,
        since: int,
        *,
        until: int | None = None,
        topics: tuple[str, ...] = ("",),
        limit: int = PAGE_EVENTS,
    ) -> dict[str, object]:
        """One page of what the journal keeps after ``since`` (and before ``until``), for a control reply.

        ``events``: the messages as they were published; ``more``: ask again with ``since`` = ``next``.
        Raises PublishError when the journal cannot be read.
        """
        page = self._journal.since(since, until=until, topics=topics, limit=limit)
        return {
            "events": [msgspec.Raw(event) for event in page.events],
            "more": page.more,
            "next": page.last,
            "kept": self._kept,
        }

    def statistics(self) -> PublisherStatistics:
        return PublisherStatistics(
            address=self.address,
            boot=self.boot,
            seq=self._counter.last,
            published=dict(self._published),
            unjournalled=self._unjournalled,
            subscriptions=self._subscriptions,
        )

    def _stamp(self, message: Message) -> Message:
        self._topics[message.topic] += 1
        stamps: dict[str, object] = {
            "seq": self._counter.next(),
            "n": self._topics[message.topic],
            "kept": self._kept,
            "boot": self.boot,
            "t_wall": time.time(),
            "t_mono_ns": time.monotonic_ns(),
        }
        return msgspec.structs.replace(message, **stamps)

    # --- the journal -----------------------------------------------------------------------------------

    def _keep(self, message: Message, topic: bytes, data: bytes) -> PublishError | None:
        """Journal one message; the error is returned, for the message goes out all the same."""
        try:
            self._journal.append(message.seq, topic.decode(), message.t_wall, data)
        except PublishError as error:
            self._unjournalled += 1
            return error
        self._kept = message.seq
        return None

    def _complain(self, error: PublishError) -> None:
        """Tell of a failing journal, at most once in ``COMPLAIN_S``."""
        self._failing = True
        if time.monotonic() < self._complain_at:
            return
        self._complain_at = time.monotonic() + COMPLAIN_S
        log.error("%s", error)
        self._tell("journal_failed", "error", str(error))

    def _recovered(self) -> None:
        self._failing = False
        self._complain_at = 0.0
        log.info("the journal works again")
        self._tell("journal_recovered", "info", "the journal works again")

    def _tell(self, code: str, severity: str, message: str) -> None:
        details = {"unjournalled": self._unjournalled}
        self._send(Health(source=DAEMON, code=code, severity=severity, message=message, details=details))

    # --- subscribers -----------------------------------------------------------------------------------

    def _read_subscriptions(self) -> None:
        """Answer new subscriptions with the states that they match, each state once."""
        if self._binding is None:
            return
        prefixes: set[str] = set()
        for _ in range(MAX_SUBSCRIPTIONS_A_TURN):
            try:
                frame = self._binding.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._note(frame, prefixes)
        if prefixes:
            self._send_states(tuple(prefixes))
            asyncio.get_running_loop().call_soon(self._read_subscriptions)  # those that came meanwhile

    def _note(self, frame: bytes, prefixes: set[str]) -> None:
        """A subscriber's frame is 1 (subscribe) or 0 (unsubscribe) and the prefix; others mean nothing."""
        if frame[:1] == b"\x01":
            self._subscriptions += 1
            prefixes.add(frame[1:].decode("utf-8", "replace"))
        elif frame[:1] == b"\x00":
            self._subscriptions = max(0, self._subscriptions - 1)  # one may end what was never begun

    def _send_states(self, prefixes: tuple[str, ...]) -> None:
        for state in list(self._states.values()):
            if matches(state.topic, prefixes):
                self._send(state)

    def _repeat_states(self) -> None:
        self._send_states(("",))
        self._repeat = asyncio.get_running_loop().call_later(STATE_REPEAT_S, self._repeat_states)

    def _stop_repeating(self) -> None:
        if self._repeat is not None:
            self._repeat.cancel()
            self._repeat = None
