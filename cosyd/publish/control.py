"""The daemon's side of the control socket: one JSON request, one JSON reply, whatever comes in.

A request is an object with ``cmd``, the parameters of that command, and optionally ``id`` (a string or a
number), which the reply repeats. The reply is ``{"ok": true, ...}`` or ``{"ok": false, "error": "..."}``.
REQ sockets and DEALER sockets, with or without the empty delimiter, are served alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import zmq
import zmq.asyncio

from cosyd.config.paths import Paths, control_endpoint
from cosyd.config.schema import Config
from cosyd.errors import CosydError
from cosyd.publish import curve
from cosyd.publish.address import Binding, bind

MAX_REQUEST_BYTES = 256_000  # the longest list of hotwords that makes sense is far below
MAX_FRAME_BYTES = 16_000_000  # beyond it libzmq drops the connection rather than take the memory
MAX_IN_FLIGHT = 32  # requests being handled at a time; further ones are told so
HANDLER_S = 60.0  # a command that takes longer is given up with an error
LINGER_MS = 500  # at the end: time for the reply to `shutdown` to leave
REPLY_QUEUE = 64  # replies kept for one client that does not read them: at most 64 MB of replay

log = logging.getLogger(__name__)

Reply = Mapping[str, object]
RequestId = str | int | float | None


class Params(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Parameters of a command; a misspelt one is an error."""


class NoParams(Params, frozen=True):
    """status, reload, shutdown."""


class SourceParams(Params, kw_only=True, frozen=True):
    """mute, unmute. ``source``: its name; null is all of them."""

    source: str | None = None


class DumpParams(Params, kw_only=True, frozen=True):
    """dump. The last ``seconds`` of ``source``; null is all sources that are not muted."""

    source: str | None = None
    seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0


class ReplayParams(Params, kw_only=True, frozen=True):
    """replay. The kept events with ``since`` < seq < ``until`` whose topic begins with one of ``topics``,
    at most ``limit`` of them; the reply says where to go on."""

    since: Annotated[int, msgspec.Meta(ge=0)]
    until: Annotated[int, msgspec.Meta(ge=0)] | None = None
    topics: tuple[str, ...] = ("",)
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1_000


class HotwordsParams(Params, kw_only=True, frozen=True):
    """hotwords. ``set`` replaces the list, ``add`` and ``remove`` change it, none of them shows it.
    ``source``: the list of this source, which holds beside that of all sources; null is the latter."""

    set: tuple[str, ...] | None = None
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    source: str | None = None


@dataclass(frozen=True)
class Handler:
    """A command: the type of its parameters, and the coroutine that carries it out and gives the reply.

    A CosydError that it raises becomes the error reply.
    """

    params: type[Params]
    call: Callable[[Any], Awaitable[Reply]]


class ControlServer:
    """``with ControlServer(config, paths, handlers) as server`` in a running event loop.

    Raises PublishError when the address is taken or must not be bound.
    """

    def __init__(self, config: Config, paths: Paths, handlers: Mapping[str, Handler]) -> None:
        self._address = control_endpoint(config, paths)
        self._curve = config.publish.curve and self._address.startswith("tcp://")
        self._keys = paths.keys
        self._handlers = dict(handlers)
        self._resources = contextlib.ExitStack()
        self._binding: Binding | None = None
        self._tasks: set[asyncio.Task[bytes]] = set()
        self.requests = 0

    def __enter__(self) -> ControlServer:
        with contextlib.ExitStack() as stack:
            self._open(stack)
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The address that is bound, with the real port."""
        return self._binding.address if self._binding else self._address

    def close(self) -> None:
        """Stop serving; replies that are on their way get ``LINGER_MS``. Idempotent."""
        self._resources.close()

    def _open(self, stack: contextlib.ExitStack) -> None:
        loop = asyncio.get_running_loop()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        keys = curve.server_keys(self._keys) if self._curve else None
        if keys is not None:
            stack.enter_context(curve.authenticator(context, self._keys))
        socket = context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
        socket.setsockopt(zmq.SNDHWM, REPLY_QUEUE)
        binding = bind(socket, self._address, "control.endpoint", keys)
        stack.callback(binding.close, LINGER_MS)
        self._binding = binding
        stack.callback(self._forget_binding)
        descriptor = int(binding.socket.getsockopt(zmq.FD))
        loop.add_reader(descriptor, self._read)
        stack.callback(loop.remove_reader, descriptor)
        stack.callback(self._cancel)

    def _forget_binding(self) -> None:
        self._binding = None

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    # --- requests --------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Take what has come, at most ``MAX_IN_FLIGHT`` requests before the loop gets its turn."""
        for _ in range(MAX_IN_FLIGHT):
            if self._binding is None:
                return
            try:
                envelope, body = _split(self._binding.socket.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return
            self._accept(envelope, body)
        asyncio.get_running_loop().call_soon(self._read)

    def _accept(self, envelope: list[bytes], body: list[bytes]) -> None:
        self.requests += 1
        request_id: RequestId = None
        try:
            request = _parse(body)
            request_id = _request_id(request)
            handler, params = self._understand(request)
        except CosydError as error:
            self._answer(envelope, _failure(str(error), request_id))
            return
        task = asyncio.get_running_loop().create_task(_carry_out(handler, params, request_id))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(envelope, request_id, done))

    def _understand(self, request: dict[str, object]) -> tuple[Handler, Params]:
        name = request.pop("cmd", None)
        if not isinstance(name, str):
            raise CosydError('a request is an object with a command, such as {"cmd": "status"}')
        handler = self._handlers.get(name)
        if handler is None:
            raise CosydError(_unknown("command", name, self._handlers))
        if len(self._tasks) >= MAX_IN_FLIGHT:
            raise CosydError(f"{MAX_IN_FLIGHT} requests are being handled; try again")
        return handler, _params(name, handler.params, request)

    def _finish(self, envelope: list[bytes], request_id: RequestId, task: asyncio.Task[bytes]) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # the server is closing
            return
        error = task.exception()
        if error is None:
            self._answer(envelope, task.result())
        else:
            self._answer(envelope, _failure(_describe(error), request_id))

    def _answer(self, envelope: list[bytes], reply: bytes) -> None:
        """Send a reply. A client that has gone, or does not read, loses it; the server never waits."""
        if self._binding is None:
            return
        with contextlib.suppress(zmq.Again):
            self._binding.socket.send_multipart([*envelope, reply], zmq.NOBLOCK)
        asyncio.get_running_loop().call_soon(self._read)  # the send may have taken the descriptor's edge


async def _carry_out(handler: Handler, params: Params, request_id: RequestId) -> bytes:
    result = await asyncio.wait_for(handler.call(params), HANDLER_S)
    return _encode({"ok": True, **result}, request_id)


def _describe(error: BaseException) -> str:
    """What the client is told; a fault of ours goes into the log with its traceback, too."""
    if isinstance(error, CosydError):
        return str(error)
    if isinstance(error, asyncio.TimeoutError):
        return f"gave up after {HANDLER_S:.0f} s"
    log.error("a control command failed", exc_info=error)
    return f"internal error: {type(error).__name__}: {error}"


def _split(frames: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The envelope (identity, and the empty delimiter where the client sends one) and the body."""
    cut = 2 if len(frames) > 1 and frames[1] == b"" else 1
    return frames[:cut], frames[cut:]


def _parse(body: list[bytes]) -> dict[str, object]:
    if len(body) != 1:
        raise CosydError(f"a request is one frame of JSON, not {len(body)}")
    if len(body[0]) > MAX_REQUEST_BYTES:
        raise CosydError(f"the request has {len(body[0])} bytes; {MAX_REQUEST_BYTES} are taken")
    try:
        request: dict[str, object] = msgspec.json.decode(body[0], type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise CosydError(f"the request is no JSON object: {error}") from error
    return request


def _request_id(request: dict[str, object]) -> RequestId:
    request_id = request.pop("id", None)
    if request_id is None or (isinstance(request_id, str | int | float) and len(str(request_id)) <= 100):
        return request_id
    raise CosydError("id is a number or a short string")


def _params(name: str, kind: type[Params], given: dict[str, object]) -> Params:
    for key in given:
        if key not in kind.__struct_fields__:
            raise CosydError(f"{name}: {_unknown('parameter', key, kind.__struct_fields__)}")
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise CosydError(f"{name}: {error}") from error


def _unknown(what: str, name: str, known: Any) -> str:
    """``unknown command 'stats'; did you mean 'status'?``"""
    shown = name[:60]
    close = difflib.get_close_matches(shown, list(known), n=1)
    if close:
        return f"unknown {what} {shown!r}; did you mean {close[0]!r}?"
    return (
        f"unknown {what} {shown!r}; there {'is' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"
    )


def _failure(error: str, request_id: RequestId) -> bytes:
    return _encode({"ok": False, "error": error}, request_id)


def _encode(reply: Reply, request_id: RequestId) -> bytes:
    return msgspec.json.encode(reply if request_id is None else {**reply, "id": request_id})
