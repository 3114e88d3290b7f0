"""A real daemon and a real subscriber, for tests of the whole."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import zmq

from cosyd.publish.control_client import ControlClient
from cosyd.runtime.embedded import EmbeddedDaemon

PATIENCE_S = 60.0  # how long to wait for what must come; the machines of tests are slow and shared


class Listening:
    """Context manager: ``messages`` grows by all that the daemon publishes."""

    def __init__(self, config: dict[str, Any], **options: Any) -> None:
        self.daemon = EmbeddedDaemon(config, **options)
        self.messages: list[dict[str, Any]] = []
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)

    def __enter__(self) -> Listening:
        self.daemon.__enter__()
        self._socket.subscribe(b"")
        self._socket.connect(self.daemon.events)
        return self

    def __exit__(self, *error: Any) -> None:
        self.daemon.__exit__(*error)
        self._collect(0.2)
        self._socket.close(0)
        self._context.term()

    def control(self, cmd: str, **params: Any) -> dict[str, Any]:
        with ControlClient(self.daemon.control) as client:
            return dict(client.request(cmd, params))

    def pid(self, worker: str) -> int:
        workers = {w["name"]: w["pid"] for w in self.control("status")["workers"]}
        return int(workers[worker])

    def until(
        self, found: Callable[[dict[str, Any]], bool], patience_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """The first message, of those there are and those that come, for which ``found``."""
        looked_at = 0
        deadline = time.monotonic() + patience_s
        while True:
            for message in self.messages[looked_at:]:
                if found(message):
                    return message
            looked_at = len(self.messages)
            self.daemon.check()
            assert time.monotonic() < deadline, self.log()
            self._collect(0.1)

    def of(self, type_: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == type_]

    def log(self) -> str:
        return self.daemon.log_file.read_text(errors="replace")

    def _collect(self, wait_s: float) -> None:
        while self._socket.poll(wait_s * 1000):
            self.messages.append(json.loads(self._socket.recv_multipart()[1]))


def is_(type_: str, **fields: Any) -> Callable[[dict[str, Any]], bool]:
    """A predicate: messages of this type with these fields."""
    return lambda m: m["type"] == type_ and all(m[key] == value for key, value in fields.items())
