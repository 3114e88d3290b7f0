"""The client of the control socket: it asks, raises what was refused, and names what does not answer."""

from __future__ import annotations

import asyncio

import pytest

from cosyd.config.paths import Paths
from cosyd.config.schema import Config
from cosyd.errors import ControlError
from cosyd.publish.control import ControlServer, Handler, NoParams, Params, Reply, SourceParams
from cosyd.publish.control_client import ControlClient


async def echo(params: Params) -> Reply:
    return {"got": params}


async def refuse(_: NoParams) -> Reply:
    raise ControlError("no, because of a reason")


HANDLERS = {
    "status": Handler(NoParams, echo),
    "mute": Handler(SourceParams, echo),
    "refuse": Handler(NoParams, refuse),
}


def test_the_client_asks_and_raises(paths: Paths) -> None:
    async def main() -> None:
        with ControlServer(Config(), paths, HANDLERS) as server:
            await asyncio.to_thread(use_client, server.address)

    def use_client(address: str) -> None:
        with ControlClient(address) as client:
            assert client.request("mute", {"source": "mic"}) == {"got": {"source": "mic"}}
            with pytest.raises(ControlError, match=r"^no, because of a reason$"):
                client.request("refuse")
            assert client.request("status") == {"got": {}}

    asyncio.run(main())


def test_the_client_without_a_daemon(paths: Paths) -> None:
    with ControlClient(f"ipc://{paths.runtime}/control.sock") as client:
        for _ in range(2):
            with pytest.raises(ControlError, match=r"does not answer at ipc://.*systemctl status cosyd"):
                client.request("status", timeout_s=0.05)


def test_a_late_answer_is_not_taken_for_the_next(paths: Paths) -> None:
    async def main() -> None:
        async def slow(params: SourceParams) -> Reply:
            await asyncio.sleep(0.4 if params.source == "slow" else 0)
            return {"source": params.source}

        with ControlServer(Config(), paths, {"mute": Handler(SourceParams, slow)}) as server:
            await asyncio.to_thread(use_client, server.address)

    def use_client(address: str) -> None:
        with ControlClient(address) as client:
            with pytest.raises(ControlError, match="does not answer"):
                client.request("mute", {"source": "slow"}, timeout_s=0.2)
            assert client.request("mute", {"source": "quick"}) == {"source": "quick"}

    asyncio.run(main())


def test_an_address_that_makes_no_sense() -> None:
    with (
        ControlClient("nonsense") as client,
        pytest.raises(ControlError, match="write ipc:///PATH or tcp://HOST:PORT"),
    ):
        client.request("status")
