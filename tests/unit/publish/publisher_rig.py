"""A publisher and plain SUB sockets in one event loop, for the tests of what it sends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import zmq
import zmq.asyncio

from cosyd.config.paths import Paths
from cosyd.config.schema import Config, PublishConfig
from cosyd.publish.curve import ClientKeys
from cosyd.publish.messages import AnyMessage, AsrFinal, AsrPartial, State, decode
from cosyd.publish.publisher import Publisher

WAIT_S = 20.0  # only so that a failure does not hang
QUIET_S = 0.3  # how long a test waits for what must not come

Subscribe = Callable[..., zmq.asyncio.Socket]
Body = Callable[[Publisher, Subscribe], Awaitable[None]]


def final(text: str = "hello", source: str = "mic") -> AsrFinal:
    return AsrFinal(source=source, utt=1, text=text, start=0.0, end=1.0, reason="silence")


def partial() -> AsrPartial:
    return AsrPartial(source="mic", utt=1, text="hel", start=0.0, end=1.0)


def run(paths: Paths, body: Body, config: PublishConfig | None = None) -> None:
    async def main() -> None:
        with (
            Publisher(Config(publish=config or PublishConfig()), paths) as publisher,
            zmq.asyncio.Context() as context,
        ):
            sockets: list[zmq.asyncio.Socket] = []

            def subscribe(*topics: str, keys: ClientKeys | None = None) -> zmq.asyncio.Socket:
                socket = context.socket(zmq.SUB)
                sockets.append(socket)
                socket.linger = 0
                if keys:
                    keys.apply(socket)
                for topic in topics:
                    socket.subscribe(topic)
                socket.connect(publisher.address)
                return socket

            try:
                await body(publisher, subscribe)
            finally:
                for socket in sockets:
                    socket.close()

    asyncio.run(main())


async def receive(socket: zmq.asyncio.Socket) -> AnyMessage:
    topic, data = await asyncio.wait_for(socket.recv_multipart(), WAIT_S)
    message = decode(data)
    assert message.topic == topic.decode()
    return message


async def subscribed(publisher: Publisher, socket: zmq.asyncio.Socket) -> None:
    """Wait until a subscription is in force, and read what was said of that."""
    while publisher.statistics().subscriptions == 0:
        await asyncio.sleep(0.005)
    marker = publisher.publish(State(source="mic", status="listening"))
    while (await receive(socket)).seq != marker:
        pass


async def nothing_comes(socket: zmq.asyncio.Socket) -> None:
    assert not await socket.poll(int(QUIET_S * 1000))
