"""The publisher over TCP: keys are demanded, and only clients that have one get in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from publisher_rig import Subscribe, nothing_comes, receive, run, subscribed

from cosyd.config.paths import Paths
from cosyd.config.schema import Config, PublishConfig
from cosyd.errors import PublishError
from cosyd.publish.curve import ClientKeys, create_keys
from cosyd.publish.messages import State
from cosyd.publish.publisher import Publisher

CURVE = PublishConfig(endpoint="tcp://127.0.0.1:*", curve=True)


def test_loopback_needs_no_keys(paths: Paths) -> None:
    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        assert publisher.address.startswith("tcp://127.0.0.1:")
        await subscribed(publisher, subscribe("state"))

    run(paths, body, PublishConfig(endpoint="tcp://127.0.0.1:*"))


@pytest.mark.parametrize("endpoint", ["tcp://0.0.0.0:0", "tcp://*:*", "tcp://[::]:0"])
def test_a_public_bind_without_keys_is_refused(paths: Paths, endpoint: str) -> None:
    async def main() -> None:
        config = Config(publish=PublishConfig(endpoint=endpoint))
        with pytest.raises(PublishError, match=r"set publish.curve: true"), Publisher(config, paths):
            pass

    asyncio.run(main())


def test_curve_without_a_key(paths: Paths) -> None:
    async def main() -> None:
        with (
            pytest.raises(PublishError, match=r"no .*server.key_secret"),
            Publisher(Config(publish=CURVE), paths),
        ):
            pass

    asyncio.run(main())


def test_curve_admits_known_clients_only(paths: Paths, tmp_path: Path) -> None:
    server, _ = create_keys(paths.keys, "server")
    known, secret = create_keys(paths.keys, "kitchen")
    _, stranger = create_keys(tmp_path / "elsewhere", "kitchen")
    wrong_server, _ = create_keys(tmp_path / "elsewhere", "server")

    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        publisher.publish(State(source="mic", status="listening"))
        assert isinstance(await receive(subscribe("state", keys=ClientKeys.load(server, secret))), State)
        refused = [
            subscribe("state"),
            subscribe("state", keys=ClientKeys.load(server, stranger)),
            subscribe("state", keys=ClientKeys.load(wrong_server, secret)),
        ]
        for socket in refused:
            await nothing_comes(socket)
        known.unlink()  # not admitted any more, without a restart
        await nothing_comes(subscribe("state", keys=ClientKeys.load(server, secret)))

    run(paths, body, CURVE)
