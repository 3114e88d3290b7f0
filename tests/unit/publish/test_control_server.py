"""Every request gets a reply, whatever it is made of, and nothing stops the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import zmq
import zmq.asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.config.paths import Paths
from cosyd.config.schema import Config, ControlConfig
from cosyd.errors import ControlError, PublishError
from cosyd.publish import control
from cosyd.publish.control import (
    MAX_REQUEST_BYTES,
    ControlServer,
    Handler,
    HotwordsParams,
    NoParams,
    Params,
    ReplayParams,
    Reply,
    SourceParams,
)

WAIT_S = 20.0  # only so that a failure does not hang


async def echo(params: Params) -> Reply:
    return {"got": params}


async def refuse(_: NoParams) -> Reply:
    raise ControlError("no, because of a reason")


async def broken(_: NoParams) -> Reply:
    raise ZeroDivisionError("a fault of ours")


async def unspeakable(_: NoParams) -> Reply:
    return {"socket": object()}


HANDLERS = {
    "status": Handler(NoParams, echo),
    "mute": Handler(SourceParams, echo),
    "replay": Handler(ReplayParams, echo),
    "hotwords": Handler(HotwordsParams, echo),
    "refuse": Handler(NoParams, refuse),
    "broken": Handler(NoParams, broken),
    "unspeakable": Handler(NoParams, unspeakable),
}

Ask = Callable[..., Awaitable[dict[str, Any]]]


def serve(
    paths: Paths, body: Callable[[Ask], Awaitable[None]], handlers: dict[str, Handler] | None = None
) -> None:
    """Run ``body`` beside a server; ``ask(*frames)`` sends frames from a DEALER and gives the reply."""

    async def main() -> None:
        with (
            ControlServer(Config(), paths, handlers or HANDLERS) as server,
            zmq.asyncio.Context() as context,
            context.socket(zmq.DEALER) as socket,
        ):
            socket.linger = 0
            socket.connect(server.address)

            async def ask(*frames: bytes) -> dict[str, Any]:
                await socket.send_multipart(frames)
                reply = await asyncio.wait_for(socket.recv_multipart(), WAIT_S)
                return json.loads(reply[-1])

            await body(ask)

    asyncio.run(main())


def test_a_command(paths: Paths) -> None:
    async def body(ask: Ask) -> None:
        assert await ask(b'{"cmd":"mute","source":"mic"}') == {"ok": True, "got": {"source": "mic"}}
        assert await ask(b"", b'{"cmd":"status","id":7}') == {"ok": True, "got": {}, "id": 7}

    serve(paths, body)


def test_the_reply_in_bytes(paths: Paths) -> None:
    """With and without the delimiter, the envelope comes back as it was sent."""

    async def main() -> None:
        with (
            ControlServer(Config(), paths, HANDLERS) as server,
            zmq.asyncio.Context() as context,
            context.socket(zmq.DEALER) as dealer,
            context.socket(zmq.REQ) as req,
        ):
            dealer.connect(server.address)
            req.connect(server.address)
            await dealer.send(b'{"cmd":"status","id":"x"}')
            assert await dealer.recv_multipart() == [b'{"ok":true,"got":{},"id":"x"}']
            await dealer.send_multipart([b"", b'{"cmd":"refuse"}'])
            assert await dealer.recv_multipart() == [
                b"", b'{"ok":false,"error":"no, because of a reason"}'
            ]  # fmt: skip
            await req.send(b'{"cmd":"status"}')
            assert await req.recv_multipart() == [b'{"ok":true,"got":{}}']

    asyncio.run(main())


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        ([b""], "one frame of JSON, not 0"),
        ([b"{", b"}"], "one frame of JSON, not 2"),
        ([b"", b"", b"{}"], "one frame of JSON, not 2"),
        ([b"", b""], "no JSON object"),
        ([b"nonsense"], "no JSON object"),
        ([b"\xff\xfe"], "no JSON object"),
        ([b"[" * 100_000], "no JSON object"),
        ([b"[]"], "no JSON object"),
        ([b"null"], "no JSON object"),
        ([b"{}"], 'such as {"cmd": "status"}'),
        ([b'{"cmd":5}'], 'such as {"cmd": "status"}'),
        ([b'{"cmd":"stauts"}'], "unknown command 'stauts'; did you mean 'status'?"),
        ([b'{"cmd":"zzz"}'], "unknown command 'zzz'; there are status, mute"),
        ([b'{"cmd":"' + b"z" * 1000 + b'"}'], "unknown command 'zzz"),
        ([b'{"cmd":"mute","sourc":"mic"}'], "mute: unknown parameter 'sourc'; did you mean 'source'?"),
        ([b'{"cmd":"mute","source":5}'], "mute: Expected `str | null`, got `int` - at `$.source`"),
        ([b'{"cmd":"replay"}'], "replay: Object missing required field `since`"),
        ([b'{"cmd":"replay","since":-1}'], "replay: Expected `int` >= 0 - at `$.since`"),
        ([b'{"cmd":"replay","since":1e400}'], "replay: Expected `int`"),
        ([b'{"cmd":"replay","since":0,"limit":0}'], "replay: Expected `int` >= 1"),
        ([b'{"cmd":"status","id":{}}'], "id is a number or a short string"),
        ([b'{"cmd":"broken"}'], "internal error: ZeroDivisionError: a fault of ours"),
        ([b'{"cmd":"unspeakable"}'], "internal error: TypeError"),
        ([b" " * (MAX_REQUEST_BYTES + 1)], "bytes; 256000 are taken"),
    ],
)
def test_each_fault_is_named(paths: Paths, frames: list[bytes], error: str) -> None:
    async def body(ask: Ask) -> None:
        reply = await ask(*frames)
        assert reply["ok"] is False
        assert error in reply["error"] or (b"1e400" in frames[0] and "JSON" in reply["error"])
        assert (await ask(b'{"cmd":"status"}'))["ok"] is True

    serve(paths, body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["cmd", "id", "since", "until", "topics", "limit", "source", "set", "add"])
commands = st.sampled_from(sorted(HANDLERS))
requests = st.dictionaries(keys, json_values | commands, max_size=5).map(
    lambda value: json.dumps(value).encode()
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.binary(max_size=60) | requests, min_size=1, max_size=4), min_size=1, max_size=10))
def test_any_frames_get_a_reply(tmp_path_factory: pytest.TempPathFactory, inputs: list[list[bytes]]) -> None:
    root = tmp_path_factory.mktemp("fuzz")

    async def body(ask: Ask) -> None:
        for frames in inputs:
            reply = await ask(*frames)
            assert reply["ok"] is True or (reply["ok"] is False and isinstance(reply["error"], str))

    serve(Paths(root, root, root, root / "run", root), body)


def test_slow_commands_do_not_hold_up_others(paths: Paths) -> None:
    async def main() -> None:
        release = asyncio.Event()

        async def slow(_: NoParams) -> Reply:
            await release.wait()
            return {}

        handlers = {"slow": Handler(NoParams, slow), "quick": Handler(NoParams, echo)}
        with (
            ControlServer(Config(), paths, handlers) as server,
            zmq.asyncio.Context() as context,
            context.socket(zmq.DEALER) as socket,
        ):
            socket.connect(server.address)
            await socket.send(b'{"cmd":"slow","id":1}')
            await socket.send(b'{"cmd":"quick","id":2}')
            assert json.loads(await asyncio.wait_for(socket.recv(), WAIT_S))["id"] == 2
            release.set()
            assert json.loads(await asyncio.wait_for(socket.recv(), WAIT_S))["id"] == 1

    asyncio.run(main())


def test_what_is_in_flight_is_bounded(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MAX_IN_FLIGHT", 3)

    async def main() -> None:
        async def forever(_: NoParams) -> Reply:
            await asyncio.Event().wait()
            return {}

        with (
            ControlServer(Config(), paths, {"wait": Handler(NoParams, forever)}) as server,
            zmq.asyncio.Context() as context,
            context.socket(zmq.DEALER) as socket,
        ):
            socket.connect(server.address)
            for _ in range(4):
                await socket.send(b'{"cmd":"wait"}')
            reply = json.loads(await asyncio.wait_for(socket.recv(), WAIT_S))
            assert reply == {"ok": False, "error": "3 requests are being handled; try again"}

    asyncio.run(main())


def test_a_command_that_hangs_is_given_up(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "HANDLER_S", 0.05)

    async def forever(_: NoParams) -> Reply:
        await asyncio.Event().wait()
        return {}

    async def body(ask: Ask) -> None:
        assert "gave up" in (await ask(b'{"cmd":"wait"}'))["error"]

    serve(paths, body, {"wait": Handler(NoParams, forever)})


def test_permissions_and_a_second_server(paths: Paths) -> None:
    async def main() -> None:
        with ControlServer(Config(), paths, HANDLERS):
            assert (paths.runtime / "control.sock").stat().st_mode & 0o777 == 0o660
            with pytest.raises(PublishError, match="another cosyd is running"):
                ControlServer(Config(), paths, HANDLERS).__enter__()
        assert not (paths.runtime / "control.sock").exists()

    asyncio.run(main())


def test_a_public_address_without_keys_is_refused(paths: Paths) -> None:
    async def main() -> None:
        config = Config(control=ControlConfig(endpoint="tcp://0.0.0.0:0"))
        with pytest.raises(PublishError, match=r"control.endpoint: .*publish.curve: true"):
            ControlServer(config, paths, HANDLERS).__enter__()

    asyncio.run(main())
