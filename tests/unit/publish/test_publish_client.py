"""What the client makes of its arguments, of messages it does not know, and of bad replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import zmq

from cosyd.client import AsrFinal, AsyncClient, Client, ControlError, PublishError, default_endpoints
from cosyd.config.paths import Paths
from cosyd.config.schema import Config
from cosyd.publish.control import ControlServer, Handler, ReplayParams, Reply
from cosyd.publish.messages import State, encode

WAIT_S = 20.0  # only so that a failure does not hang


def test_a_users_own_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    assert default_endpoints() == (f"ipc://{tmp_path}/events.sock", f"ipc://{tmp_path}/control.sock")


def test_the_systems_daemon_for_who_has_none_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from cosyd.config import paths

    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "none"))
    monkeypatch.setattr(paths, "SYSTEM_RUNTIME", tmp_path)
    assert default_endpoints()[0] == f"ipc://{tmp_path}/events.sock"


def test_one_string_is_no_list_of_topics() -> None:
    with pytest.raises(TypeError, match="sequence of prefixes"):
        Client("ipc:///x", topics="asr.")


def test_half_of_the_keys() -> None:
    with pytest.raises(PublishError, match="needs both"):
        Client("tcp://box:1", server_key=Path("server.key"))


def test_an_address_that_makes_no_sense() -> None:
    with Client("nonsense") as client, pytest.raises(PublishError, match="cannot connect to nonsense"):
        client.receive(0.1)


def test_no_daemon_is_no_error(tmp_path: Path) -> None:
    with Client(f"ipc://{tmp_path}/events.sock", timeout_s=0.05) as client:
        assert list(client) == []
        assert client.settled is None


def final(seq: int, kept: int) -> AsrFinal:
    return AsrFinal(
        source="mic", seq=seq, n=seq, kept=kept, boot="a", utt=seq, text=str(seq), start=0, end=0, reason=""
    )


def test_only_what_was_asked_for_is_handed_on(tmp_path: Path) -> None:
    """The client listens to more than that for its own ends, and leaves out what it does not know."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as socket:
        socket.linger = 0
        socket.bind(f"ipc://{tmp_path}/events.sock")
        with Client(f"ipc://{tmp_path}/events.sock", topics=("asr.", "later.")) as client:
            assert client.receive(0.0) is None  # connects
            for _ in range(6):  # asr., later., the three journalled types, state
                assert socket.poll(WAIT_S * 1000)
                socket.recv()
            frames = [
                (b"later.mic", b'{"type":"later","v":2,"source":"mic","seq":1}'),
                (b"asr.final.mic", b"not even JSON"),
                encode(State(source="mic", seq=2, boot="a", status="listening")),
                encode(final(3, kept=0)),
            ]
            for frame in frames:
                socket.send_multipart(frame)
            message = client.receive(WAIT_S)
            assert isinstance(message, AsrFinal)
            assert (message.text, client.settled) == ("3", 3)


@pytest.mark.parametrize(
    ("reply", "texts"),
    [
        ({"events": [{"type": "later", "source": "mic"}], "next": 4, "more": False}, ["5"]),
        ({"events": [], "next": 1, "more": True}, ["5"]),
        ({"events": "all of them"}, None),
        ({"events": [], "next": "one"}, None),
    ],
)
def test_replies_that_are_odd(paths: Paths, reply: Reply, texts: list[str] | None) -> None:
    async def replay(_: ReplayParams) -> Reply:
        return reply

    async def main() -> None:
        with ControlServer(Config(), paths, {"replay": Handler(ReplayParams, replay)}) as server:
            await asyncio.to_thread(use, server.address)

    def use(control: str) -> None:
        events = f"ipc://{paths.runtime}/fake.sock"
        with zmq.Context() as context, context.socket(zmq.XPUB) as socket:
            socket.linger = 0
            socket.bind(events)
            with Client(events, control, since=0, patience_s=0.0) as client:
                assert client.receive(0.0) is None
                assert socket.poll(WAIT_S * 1000)
                socket.send_multipart(encode(final(5, kept=4)))
                if texts is None:
                    with pytest.raises(ControlError, match="reply to replay has no events"):
                        client.receive(WAIT_S)
                message = client.receive(WAIT_S)
                assert isinstance(message, AsrFinal)
                assert message.text == "5"

    asyncio.run(main())


# --- going on after a crash ----------------------------------------------------------------------------


async def kept_finals(params: ReplayParams) -> Reply:
    """Two pages of finals: 1 and 2, then 3 and 4."""
    first = params.since + 1
    events = [msgspec.to_builtins(final(seq, kept=seq - 1)) for seq in (first, first + 1)]
    return {"events": events, "next": first + 1, "more": first == 1}


def test_settled_is_what_was_handed_over_not_what_was_fetched(paths: Paths) -> None:
    """A program that stores it with its results, and is killed in the middle of a page, gets the rest."""

    async def main() -> None:
        with ControlServer(Config(), paths, {"replay": Handler(ReplayParams, kept_finals)}) as server:
            await asyncio.to_thread(use, server.address)

    def use(control: str) -> None:
        events = f"ipc://{paths.runtime}/fake.sock"
        with published(events) as publish, Client(events, control, since=0) as client:
            assert client.receive(0.0) is None
            publish(final(5, kept=4))
            seen = []
            while len(seen) < 5:
                message = client.receive(WAIT_S)
                assert message is not None
                seen.append((message.seq, client.settled))
            assert seen == [(seq, seq) for seq in range(1, 6)]

    asyncio.run(main())


def test_settled_in_asyncio(paths: Paths) -> None:
    """Also when a time limit struck before the message came: it waits then, and was not handed over."""

    async def main() -> None:
        events = f"ipc://{paths.runtime}/fake.sock"
        with (
            ControlServer(Config(), paths, {"replay": Handler(ReplayParams, kept_finals)}) as server,
            published(events) as publish,
        ):
            async with AsyncClient(events, server.address, since=0) as client:
                assert await client.receive(0.01) is None
                await asyncio.to_thread(publish, final(5, kept=4))
                await until(lambda: client._ready)
                assert client.settled == 0
                seen = []
                while len(seen) < 5:
                    message = await client.receive(WAIT_S)
                    assert message is not None
                    seen.append((message.seq, client.settled))
                assert seen == [(seq, seq) for seq in range(1, 6)]

    asyncio.run(main())


@contextmanager
def published(events: str) -> Iterator[Callable[[AsrFinal], None]]:
    """A publisher at ``events``; what it yields waits for a subscriber and publishes to it."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as socket:
        socket.linger = 0
        socket.bind(events)

        def publish(message: AsrFinal) -> None:
            assert socket.poll(WAIT_S * 1000)
            socket.send_multipart(encode(message))

        yield publish


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
