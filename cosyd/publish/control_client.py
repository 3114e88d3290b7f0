"""The other side of the control socket: ask the daemon something and wait for the answer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping

import msgspec
import zmq

from cosyd.errors import ControlError
from cosyd.publish.curve import ClientKeys

TIMEOUT_S = 5.0


class ControlClient:
    """``with ControlClient("ipc:///run/cosyd/control.sock") as control: control.request("status")``."""

    def __init__(self, endpoint: str, keys: ClientKeys | None = None) -> None:
        self._endpoint = endpoint
        self._keys = keys
        self._ids = itertools.count(1)
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._socket: zmq.Socket[bytes] | None = None

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent; a later request opens anew."""
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None
        if self._context is not None:
            self._context.term()
            self._context = None

    def request(
        self, cmd: str, params: Mapping[str, object] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> dict[str, object]:
        """The daemon's reply, without ``ok`` and ``id``.

        Raises ControlError with the daemon's own words when it refuses, and when it does not answer in
        ``timeout_s``.
        """
        socket = self._connected()
        number = next(self._ids)
        deadline = time.monotonic() + timeout_s
        request = msgspec.json.encode({**(params or {}), "cmd": cmd, "id": number})
        try:
            socket.send_multipart([b"", request], zmq.NOBLOCK)
        except zmq.Again as error:
            raise self._silence() from error
        while True:
            left_ms = max(0, round((deadline - time.monotonic()) * 1000))
            if not socket.poll(left_ms, zmq.POLLIN):
                self.close()  # so that what is still unsent does not reach a daemon that starts later
                raise self._silence()
            reply = parse_reply(socket.recv_multipart()[-1])
            if reply.pop("id", None) == number:  # not the late answer to a request that was given up
                return accepted(reply)

    def _connected(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            self._context = zmq.Context()
            self._socket = connect_control(self._context, self._endpoint, self._keys)
        return self._socket

    def _silence(self) -> ControlError:
        return ControlError(
            f"cosyd does not answer at {self._endpoint}; is it running? (systemctl status cosyd)"
        )


def connect_control(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: ClientKeys | None
) -> zmq.Socket[bytes]:
    """A DEALER, not a REQ: a REQ that got no answer is of no use any more."""
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    if keys is not None:
        keys.apply(socket)
    try:
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise ControlError(
            f"cannot connect to {endpoint}: {error.strerror}; write ipc:///PATH or tcp://HOST:PORT"
        ) from error
    return socket


def parse_reply(frame: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(frame, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise ControlError(f"what answered is not cosyd: {error}") from error


def accepted(reply: dict[str, object]) -> dict[str, object]:
    """The reply itself, or its error as a ControlError."""
    if reply.pop("ok", False) is True:
        return reply
    raise ControlError(str(reply.get("error", "the daemon refused, without a reason")))
