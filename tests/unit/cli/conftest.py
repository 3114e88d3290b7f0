"""The command line in this process, with folders of its own and nothing of this machine's configuration."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cosyd.cli import main
from cosyd.config.paths import Paths
from cosyd.config.schema import Config, PathsConfig
from cosyd.publish.control import ControlServer, Handler, HotwordsParams, NoParams, ReplayParams, SourceParams
from cosyd.publish.messages import Message
from cosyd.publish.publisher import Publisher


@dataclass
class Done:
    """What a command left."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Configuration and folders below ``tmp_path`` alone; hooks and logging as they were afterwards."""
    for name in [name for name in os.environ if name.startswith(("COSYD_", "XDG_", "NO_COLOR"))]:
        monkeypatch.delenv(name)
    for name in ("models", "state", "cache", "runtime", "keys"):
        monkeypatch.setenv(f"COSYD_PATHS__{name.upper()}", str(tmp_path / name))
    monkeypatch.setattr("cosyd.config.paths.SYSTEM_CONFIG", tmp_path / "etc")
    hook, handlers, level = sys.excepthook, logging.root.handlers[:], logging.root.level
    signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in signals.items():
        signal.signal(number, handler)
    sys.excepthook = hook
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture
def cosyd(capsys: pytest.CaptureFixture[str]) -> Run:
    """``cosyd("version", "--json")``."""

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


class FakeDaemon:
    """The real sockets and journal of a daemon on a thread, with answers that a test chooses."""

    def __init__(self, config: Config, paths: Paths, replies: dict[str, Any]) -> None:
        self._config, self._paths, self._replies = config, paths, replies
        self.requests: list[tuple[str, Any]] = []
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event
        self._publisher: Publisher
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])

    def publish(self, message: Message) -> int:
        return asyncio.run_coroutine_threadsafe(self._published(message), self._loop).result(5)

    async def _published(self, message: Message) -> int:
        return self._publisher.publish(message)

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        with ExitStack() as stack:
            try:
                self._publisher = stack.enter_context(Publisher(self._config, self._paths))
                stack.enter_context(ControlServer(self._config, self._paths, self._handlers()))
            except BaseException as error:
                self._ready.set_exception(error)
                raise
            self._ready.set_result(None)
            await self._stop.wait()

    def _handlers(self) -> dict[str, Handler]:
        kinds = {"mute": SourceParams, "unmute": SourceParams, "hotwords": HotwordsParams}
        handlers = {name: self._handler(name, kinds.get(name, NoParams)) for name in self._replies}
        return {**handlers, "replay": Handler(ReplayParams, self._replay)}

    def _handler(self, name: str, kind: type[Any]) -> Handler:
        async def answer(params: Any) -> Any:
            self.requests.append((name, params))
            reply = self._replies[name]
            if isinstance(reply, Exception):
                raise reply
            return reply

        return Handler(kind, answer)

    async def _replay(self, params: ReplayParams) -> Any:
        return self._publisher.replay(params.since, topics=params.topics, limit=2)

    def __enter__(self) -> FakeDaemon:
        self._thread.start()
        self._ready.result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Callable[..., Any]:
    """``with daemon(status={...}) as running``."""
    paths = Paths.resolve(PathsConfig(**{n: str(tmp_path / n) for n in PathsConfig.model_fields}))

    @contextmanager
    def start(**replies: Any) -> Iterator[FakeDaemon]:
        paths.create()
        with FakeDaemon(Config(), paths, replies) as running:
            yield running

    return start
