"""What both clients share: the sockets, what is ready to hand on, what is being replayed."""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import zmq

from cosyd.errors import ControlError, PublishError
from cosyd.publish.control_client import ControlClient
from cosyd.publish.curve import ClientKeys
from cosyd.publish.messages import JOURNALLED_TYPES, AnyMessage, decode
from cosyd.publish.ordering import Ordering, Replay
from cosyd.publish.replay_page import Page, read_page

HIGH_WATER = 2_000  # messages kept while the program is busy; what is lost beyond comes by replay
REPLAY_TIMEOUT_S = 2.0  # for one page
PATIENCE_S = 60.0  # after which a replay that keeps failing is an error rather than a delay
MAX_MESSAGE_BYTES = 16_000_000

log = logging.getLogger(__name__)

Socket = TypeVar("Socket", bound="zmq.Socket[Any]")


def default_endpoints() -> tuple[str, str]:
    """Where a daemon with the default configuration publishes and takes commands: the system's for root,
    else the user's own when there is one, else the system's."""
    from cosyd.config.paths import Paths, control_endpoint, events_endpoint  # costs the schema
    from cosyd.config.schema import Config

    config = Config()
    own = Paths.resolve(config.paths)
    system = Paths.resolve(config.paths, environ={}, uid=0)
    paths = system if not own.runtime.exists() and os.access(system.runtime, os.X_OK) else own
    return events_endpoint(config, paths), control_endpoint(config, paths)


class Session(ABC, Generic[Socket]):
    """What both clients share: the sockets, what is ready to hand on, what is being replayed."""

    def __init__(
        self,
        events: str | None = None,
        control: str | None = None,
        topics: Sequence[str] = ("asr.",),
        since: int | None = None,
        *,
        server_key: Path | None = None,
        secret_key: Path | None = None,
        timeout_s: float | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """``events``, ``control``: addresses; without ``events``, those of the daemon on this machine.
        With ``events`` alone, nothing can be replayed: what is lost is counted in ``lost``.

        ``topics``: prefixes, such as ``asr.final`` or ``asr.final.mic``. ``since``: begin with the events
        after this ``seq``. ``server_key``, ``secret_key``: files with CURVE keys, for TCP. ``timeout_s``:
        iteration ends when nothing came for so long; None waits for ever.
        """
        if events is None:
            events, default_control = default_endpoints()
            control = control or default_control
        if isinstance(topics, str):
            raise TypeError("topics is a sequence of prefixes, not one string")
        if (server_key is None) != (secret_key is None):
            raise PublishError("CURVE needs both server_key (server.key) and secret_key (NAME.key_secret)")
        self._events = events
        self._topics = tuple(topics)
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._follows = any(_overlap(topic, kind) for topic in self._topics for kind in JOURNALLED_TYPES)
        self._keys = ClientKeys.load(server_key, secret_key) if server_key and secret_key else None
        self._control = ControlClient(control, self._keys) if control else None
        self._ordering = Ordering(self._topics, since)
        self._ready: deque[AnyMessage] = deque()  # at most a page of a replay and one message
        self._failing_since: float | None = None
        self._socket: Socket | None = None
        self._context: zmq.Context[Socket] | None = None

    @abstractmethod
    def _new_context(self) -> zmq.Context[Socket]:
        """Its sockets are of this client's kind."""

    @property
    def lost(self) -> int:
        """Finals, device and health events that were missed and could not be had again."""
        return self._ordering.lost

    @property
    def settled(self) -> int | None:
        """``since`` for another client that is to go on where this one is. None before the first message.

        It follows what was handed over, not what was fetched: up to a page may wait here.
        """
        settled = self._ordering.settled
        if settled is None or not self._ready:
            return settled
        return min(settled, self._ready[0].seq - 1)

    def _opened(self) -> Socket:
        """The socket, connected when it is first needed."""
        if self._socket is None:
            self._context = self._new_context()
            socket = self._context.socket(zmq.SUB)
            self._connect(socket)
            self._socket = socket
        return self._socket

    def _shut(self) -> None:
        """Close the sockets. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._context is not None:
            self._context.term()
            self._context = None
        if self._control is not None:
            self._control.close()

    def _steps(self) -> Iterator[Replay | None]:
        """What it takes until there is something to hand on: the page of a replay, or (None) a message."""
        while not self._ready:
            yield self._ordering.replay

    def _connect(self, socket: zmq.Socket[Any]) -> None:
        socket.linger = 0
        socket.rcvhwm = HIGH_WATER
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        socket.reconnect_ivl = 100
        socket.reconnect_ivl_max = 2_000
        socket.heartbeat_ivl = 10_000
        socket.heartbeat_timeout = 30_000
        if self._keys is not None:
            self._keys.apply(socket)
        for topic in (*self._topics, *(JOURNALLED_TYPES if self._follows else ()), "state"):
            socket.subscribe(topic)
        try:
            socket.connect(self._events)
        except zmq.ZMQError as error:
            socket.close()
            raise PublishError(f"cannot connect to {self._events}: {error.strerror}") from error

    def _take(self, frames: list[bytes]) -> None:
        """A message from the socket. A type that this version does not know is left out."""
        try:
            message = decode(frames[-1])
        except PublishError as error:
            log.debug("ignored %r: %s", frames[0], error)
            return
        self._ready.extend(self._ordering.live(message))

    def _fetch(self, replay: Replay) -> Page | ControlError:
        """Ask for one page. Changes nothing here, so that it may run in a thread."""
        if self._control is None or not self._follows:
            return Page([], replay.since, more=False)
        params = {"since": replay.since, "until": replay.until, "topics": self._topics}
        try:
            return read_page(self._control.request("replay", params, timeout_s=REPLAY_TIMEOUT_S))
        except ControlError as error:
            return error

    def _accept(self, replay: Replay, fetched: Page | ControlError) -> bool:
        """False: try again a little later. Raises ControlError when patience is over."""
        if isinstance(fetched, ControlError):
            self._be_patient(replay, fetched)
            return False
        self._failing_since = None
        self._ready.extend(self._ordering.replayed(*fetched))
        return True

    def _be_patient(self, replay: Replay, error: ControlError) -> None:
        """Raise ``error`` when this has gone on for too long, and go on without what was missed."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            log.warning("waiting to fetch what was missed: %s", error)
        if now - self._failing_since >= self._patience_s:
            self._failing_since = None
            self._ready.extend(self._ordering.replayed([], replay.since, more=False))
            raise ControlError(f"events were missed and cannot be fetched: {error}") from error


def _overlap(prefix: str, kind: str) -> bool:
    """Whether a subscription to ``prefix`` can get a message of the type ``kind``."""
    return prefix.startswith(kind) or kind.startswith(prefix)
