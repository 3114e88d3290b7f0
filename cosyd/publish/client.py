"""What a program that uses the results imports: typed messages, in order, every final exactly once.

::

    from cosyd.client import AsrFinal, Client

    with Client() as client:
        for message in client:
            if isinstance(message, AsrFinal):
                print(message.text)

``AsyncClient`` is the same with ``async with`` and ``async for``.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator

import zmq
import zmq.asyncio

from cosyd.errors import ControlError
from cosyd.publish.messages import AnyMessage
from cosyd.publish.ordering import Replay
from cosyd.publish.replay_page import Page
from cosyd.publish.session import Session

RETRY_S = 0.3  # pause after a replay that failed: the daemon may be starting


class Client(Session["zmq.Socket[bytes]"]):
    """Iterates over messages; a context manager. For one thread.

    Raises ControlError when events were missed and the daemon does not hand them out for ``patience_s``;
    iterating again goes on without them.
    """

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent. What was not read is dropped; ``settled`` says where to go on."""
        self._shut()

    def __iter__(self) -> Iterator[AnyMessage]:
        while (message := self.receive(self._timeout_s)) is not None:
            yield message

    def receive(self, timeout_s: float | None = None) -> AnyMessage | None:
        """The next message; None when none came for ``timeout_s``."""
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        for replay in self._steps():
            if replay is None:
                if self._poll(deadline):
                    self._take(self._opened().recv_multipart())
            elif not self._accept(replay, self._fetch(replay)):
                time.sleep(min(RETRY_S, max(0.0, deadline - time.monotonic())))
            if not self._ready and time.monotonic() >= deadline:
                return None
        return self._ready.popleft()

    def _poll(self, deadline: float) -> bool:
        left_s = deadline - time.monotonic()
        return bool(self._opened().poll(None if left_s == math.inf else max(0, round(left_s * 1000))))

    def _new_context(self) -> zmq.Context[zmq.Socket[bytes]]:
        return zmq.Context()


class AsyncClient(Session[zmq.asyncio.Socket]):
    """``Client`` for asyncio; replays are asked for in a thread of the loop's executor."""

    _receiving: asyncio.Task[None] | None = None  # goes on when a time limit strikes: nothing is lost
    _fetching: asyncio.Future[Page | ControlError] | None = None

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Idempotent."""
        if self._receiving is not None:
            self._receiving.cancel()
            await asyncio.wait({self._receiving})
            self._receiving = None
        if self._fetching is not None:  # a thread cannot be cancelled; it ends within REPLAY_TIMEOUT_S
            await asyncio.wait({self._fetching})
            self._fetching = None
        self._shut()

    async def __aiter__(self) -> AsyncIterator[AnyMessage]:
        while (message := await self.receive(self._timeout_s)) is not None:
            yield message

    async def receive(self, timeout_s: float | None = None) -> AnyMessage | None:
        """The next message; None when none came for ``timeout_s``."""
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._fill())
        done, _ = await asyncio.wait({self._receiving}, timeout=timeout_s)
        if not done:
            return None
        task, self._receiving = self._receiving, None
        task.result()  # raises what the task has raised
        return self._ready.popleft()

    async def _fill(self) -> None:
        """Until there is something to hand on."""
        for replay in self._steps():
            if replay is None:
                self._take(await self._opened().recv_multipart())
            elif not self._accept(replay, await self._fetch_in_thread(replay)):
                await asyncio.sleep(RETRY_S)

    async def _fetch_in_thread(self, replay: Replay) -> Page | ControlError:
        self._fetching = asyncio.ensure_future(asyncio.to_thread(self._fetch, replay))
        fetched = await asyncio.shield(self._fetching)
        self._fetching = None
        return fetched

    def _new_context(self) -> zmq.asyncio.Context:
        return zmq.asyncio.Context()
