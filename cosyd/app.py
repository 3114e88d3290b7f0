"""The composition root: the daemon put together, run, and taken apart in reverse.

``run(loaded, reload)`` blocks until a signal, the `shutdown` command or a fault that no restart mends, and
returns the exit code.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from cosyd.config.load import Loaded
from cosyd.config.paths import Locations
from cosyd.config.reload import Outcome, attempt, watch
from cosyd.config.schema import Config
from cosyd.errors import ControlError, CosydError, UsageError
from cosyd.publish.control import ControlServer, Reply
from cosyd.publish.messages import DAEMON
from cosyd.publish.publisher import Publisher
from cosyd.runtime.board import Board
from cosyd.runtime.commands import Commands
from cosyd.runtime.fleet import Fleet
from cosyd.runtime.fleet_context import FleetContext
from cosyd.runtime.hotword_lists import HotwordLists
from cosyd.runtime.hotwords import HotwordKeeper
from cosyd.runtime.ipc import Failed
from cosyd.runtime.logs import set_up_logs
from cosyd.runtime.metrics import Metrics, MetricsServer
from cosyd.runtime.supervision import Patience
from cosyd.runtime.systemd import EXTEND_S, PING_SHARE, Notifier

log = logging.getLogger("cosyd")

TICK_S = 0.1  # how often workers are checked and the service manager is served while it starts
CALM_TICK_S = 0.5  # ... once it listens: a hung worker is noticed after seconds
INTERRUPTED = 130


def run(
    loaded: Loaded,
    reload: Callable[[], Loaded],
    notifier: Notifier | None = None,
    lifeline: int | None = None,
) -> int:
    """Run the daemon. Raises CosydError when it cannot start.

    ``lifeline``: the reading end of a pipe. When its other end is closed, as the death of the process that
    holds it does however it dies, the daemon ends in order.
    """
    set_up_logs(loaded.config.log.level)
    return asyncio.run(Daemon(loaded, reload, notifier or Notifier(), lifeline).run())


class Daemon:
    """One life of the daemon, on one event loop."""

    def __init__(
        self, loaded: Loaded, reload: Callable[[], Loaded], notifier: Notifier, lifeline: int | None = None
    ) -> None:
        self._loaded = loaded
        self._load = reload
        self._notifier = notifier
        self._lifeline = lifeline
        self._config: Config = loaded.config
        self._paths = loaded.paths
        self._metrics = Metrics()
        self._exit: asyncio.Future[int] | None = None
        self._failure: Failed | None = None
        self._reloading = asyncio.Lock()
        self._reload_wanted = asyncio.Event()
        self._watch_others = asyncio.Event()
        self._hotwords = HotwordLists()
        self._hotwords_changed = asyncio.Event()
        self._hotwords_changed.set()
        self._ready = False

    async def run(self) -> int:
        """Start everything, serve until told to end, undo it in reverse."""
        self._exit = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(self._broken)
        async with AsyncExitStack() as stack:
            self._paths.create()
            self._handle_signals()
            stack.enter_context(self._held())
            publisher = stack.enter_context(Publisher(self._config, self._paths))
            board = Board(publisher.publish, publisher.forget, self._config.asr.model)
            fleet = await stack.enter_async_context(self._fleet(board))
            self._fleet_now, self._board, self._publisher = fleet, board, publisher
            keeper = HotwordKeeper(self._hotwords, fleet, board)
            commands = Commands(
                board, fleet, publisher, keeper, self._paths, self.reload, lambda: self._end(0)
            )
            stack.enter_context(ControlServer(self._config, self._paths, commands.handlers()))
            if self._config.metrics.enabled:
                stack.enter_context(MetricsServer(self._config.metrics, self._metrics))
            await stack.enter_async_context(self._beside(self._serve()))
            await stack.enter_async_context(self._beside(self._watch_files()))
            await stack.enter_async_context(self._beside(self._reload_on_signal()))
            await stack.enter_async_context(self._beside(self._check_hotwords(keeper)))
            code = await self._exit
            self._notifier.stopping()
        if self._failure:
            raise _Fatal(self._failure)
        return code

    @asynccontextmanager
    async def _fleet(self, board: Board) -> AsyncIterator[Fleet]:
        patience = Patience.for_watchdog(self._notifier.watchdog_s)
        config = self._hotwords.configure(self._config)
        context = FleetContext(config, self._paths, board, self._metrics, patience, self._give_up)
        fleet = Fleet(context)
        fleet.start()
        try:
            yield fleet
        finally:
            await fleet.stop()

    @asynccontextmanager
    async def _beside(self, work: Coroutine[None, None, None]) -> AsyncIterator[None]:
        """Run a coroutine beside the rest; an error in it ends the daemon with that error."""

        def failed(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error and self._exit and not self._exit.done():
                self._exit.set_exception(error)

        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(failed)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    # --- ending ---

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._end, 0)
        loop.add_signal_handler(signal.SIGINT, self._end, INTERRUPTED)
        loop.add_signal_handler(signal.SIGHUP, self._reload_wanted.set)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """End when the other end of the lifeline is closed, also if that was before we looked."""
        if self._lifeline is None:
            yield
            return
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(self._lifeline, self._released)
        except OSError as error:
            raise UsageError(f"--lifeline {self._lifeline}: {error.strerror}") from error
        try:
            yield
        finally:
            loop.remove_reader(self._lifeline)

    def _released(self) -> None:
        assert self._lifeline is not None
        asyncio.get_running_loop().remove_reader(
            self._lifeline
        )  # the end of a pipe is there to read for ever
        log.warning("the program that started this daemon has gone")
        self._end(0)

    def _end(self, code: int) -> None:
        if self._exit and not self._exit.done():
            self._exit.set_result(code)

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """A fault of our own in a callback: end, and let the service manager start afresh."""
        error = context.get("exception")
        if isinstance(error, BaseException) and self._exit and not self._exit.done():
            self._exit.set_exception(error)
        else:
            loop.default_exception_handler(context)

    def _give_up(self, failure: Failed) -> None:
        self._failure = failure
        self._end(failure.exit_code)

    # --- serving ---

    async def _serve(self) -> None:
        """Check the workers and serve the service manager, several times a second."""
        ping_s = (self._notifier.watchdog_s or 0.0) * PING_SHARE
        next_ping = next_extension = 0.0
        while True:
            self._fleet_now.check()
            now = time.monotonic()
            if not self._ready and self._fleet_now.listening:
                self._ready = True
                self._notifier.ready(self._summary())
                log.info("listening: %s", self._summary())
            elif not self._ready and now >= next_extension and not self._fleet_now.looping:
                next_extension = now + EXTEND_S / 3
                self._notifier.extend_start()
            if ping_s and now >= next_ping and self._fleet_now.healthy:
                next_ping = now + ping_s
                self._notifier.ping()
            self._notifier.status(self._summary())
            self._metrics.journal_errors.set(self._publisher.statistics().unjournalled)
            tick_s = CALM_TICK_S if self._ready else TICK_S
            await asyncio.sleep(min(tick_s, ping_s / 2) if ping_s else tick_s)

    def _summary(self) -> str:
        sources = [
            f"{record.name} {record.status}{f' ({record.reason})' if record.reason else ''}"
            for record in self._board.records.values()
        ]
        return f"{self._board.model}; " + ", ".join(sources)

    # --- reload ---

    async def _reload_on_signal(self) -> None:
        while await self._reload_wanted.wait():
            self._reload_wanted.clear()
            if self._ready:  # while it starts, READY has not been said and must not be said by a reload
                self._notifier.reloading(time.monotonic_ns() // 1000)
            await self.reload()
            if self._ready:
                self._notifier.reloaded()

    async def _watch_files(self) -> None:
        while True:
            self._watch_others.clear()
            async for changed in watch(self._watched(), self._watch_others):
                log.info("%s changed", ", ".join(path.name for path in changed))
                await self.reload()
            await self._watch_others.wait()

    def _watched(self) -> Locations:
        """The files of the configuration, and that of the hotwords, which is read with them."""
        locations, hotwords = self._loaded.locations, self._config.asr.hotwords_file
        extra = () if hotwords is None else (Path(hotwords),)
        return dataclasses.replace(locations, entries=(*locations.entries, *extra))

    async def reload(self) -> Reply:
        """Validate, then swap. The reply lists applied, needs-restart and rejected keys."""
        async with self._reloading:
            outcome = attempt(self._config, self._load)
            self._metrics.reload_ok.set(0 if outcome.rejected else 1)
            if not outcome.rejected:
                set_up_logs(outcome.config.log.level)
                if outcome.config.asr.hotwords_file != self._config.asr.hotwords_file:
                    self._watch_others.set()
                self._config = outcome.config
                await self._fleet_now.apply(self._hotwords.configure(outcome.config), outcome.changes)
                self._hotwords_changed.set()
            self._report(outcome)
            return {
                "applied": outcome.changes.applied,
                "needs_restart": outcome.changes.needs_restart,
                "rejected": outcome.rejected,
            }

    def _report(self, outcome: Outcome) -> None:
        for problem in outcome.rejected:
            log.error("reload rejected, nothing changed: %s", problem)
        if outcome.rejected:
            self._board.health(DAEMON, "reload_rejected", "error", outcome.rejected[0])
            return
        for key in outcome.changes.applied:
            log.info("reload: applied %s", key)
        for key in outcome.changes.needs_restart:
            log.warning("reload: %s needs a restart", key)

    async def _check_hotwords(self, keeper: HotwordKeeper) -> None:
        """Tell what of the configured hotwords has no effect, at the start and after each reload."""
        while await self._hotwords_changed.wait():
            self._hotwords_changed.clear()
            while not self._fleet_now.recognition.running:
                await asyncio.sleep(TICK_S)
            try:
                await keeper.check()
            except ControlError as error:
                log.warning("the hotwords could not be checked: %s", error)
                self._hotwords_changed.set()
                await asyncio.sleep(TICK_S)


class _Fatal(CosydError):
    """What a worker said before it gave up, with its exit code."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.message)
        self.exit_code = failure.exit_code  # type: ignore[misc]
