"""A child process and its pipe, seen from both ends.

``WorkerProcess`` is the daemon's end: it starts the process, gives each message that comes, alone or in a
tuple of several, to a callback on the event loop, and tells once when the process has gone and its pipe
is drained. ``Inbox`` is the worker's end: a thread that receives commands and notices when the daemon is no
more.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import queue
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from cosyd.runtime.ipc import FromWorker, SetLogLevel, Stop, ToWorker
from cosyd.runtime.logs import set_up_logs

log = logging.getLogger("cosyd.runtime")

INBOX_LIMIT = 1_000  # commands are rare; a worker that lags so far behind is hung, and the daemon kills it


class WorkerProcess:
    """One start of one worker. ``on_message`` and ``on_exit`` are called on the event loop.

    ``on_exit(exitcode)`` comes exactly once, after the last message; the exit code is negative for a signal.
    """

    def __init__(
        self,
        name: str,
        target: Callable[..., None],
        args: tuple[Any, ...],
        on_message: Callable[[FromWorker], None],
        on_exit: Callable[[int], None],
    ) -> None:
        self.name = name
        self._target = target
        self._args = args
        self._on_message = on_message
        self._on_exit = on_exit
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._gone = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=self._target, args=(theirs, *self._args), name=self.name)
        self._process.start()
        theirs.close()
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._readable)

    def send(self, message: ToWorker) -> None:
        """Send a command; a worker that has gone is not an error here, ``on_exit`` tells of it."""
        if self._connection is None:
            return
        try:
            self._connection.send(message)
        except OSError:
            log.debug("%s is gone, %s not delivered", self.name, type(message).__name__)

    def kill(self) -> None:
        if self._process and self._process.is_alive():
            self._process.kill()

    async def stop(self, patience_s: float) -> None:
        """Ask it to end, wait, kill it if it does not. ``on_exit`` is called before this returns."""
        if self._process is None:
            return
        self.send(Stop())
        try:
            await asyncio.wait_for(self._gone.wait(), patience_s)
        except asyncio.TimeoutError:
            log.warning("%s did not end within %.0f s, killing it", self.name, patience_s)
            self.kill()
            await self._gone.wait()

    def _readable(self) -> None:
        """There is one message at least, or the end; the loop calls again as long as there is more."""
        assert self._connection is not None
        try:
            received = self._connection.recv()
        except (EOFError, OSError):
            self._drained()
            return
        for message in received if isinstance(received, tuple) else (received,):
            self._on_message(message)

    def _drained(self) -> None:
        """The pipe is at its end: whatever the worker sent whole has been handled."""
        assert self._connection is not None
        assert self._process is not None
        asyncio.get_running_loop().remove_reader(self._connection.fileno())
        self._connection.close()
        self._connection = None
        self._process.kill()  # it closed its pipe: it has ended or is past saving
        self._process.join()
        code = self._process.exitcode or 0
        self._process.close()
        self._process = None
        self._gone.set()
        self._on_exit(code)


class Inbox:
    """Commands from the daemon, received by a thread. A closed pipe reads as ``Stop``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._commands: queue.Queue[ToWorker] = queue.Queue(INBOX_LIMIT)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="inbox", daemon=True)

    @property
    def stopping(self) -> threading.Event:
        """Set when the daemon said ``Stop`` or has gone."""
        return self._stopping

    def start(self) -> None:
        # The daemon decides when a worker ends: Ctrl-C reaches the whole foreground group, but only it acts.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._thread.start()

    def take(self) -> list[ToWorker]:
        """All commands that came since the last call."""
        commands = []
        while not self._commands.empty():
            commands.append(self._commands.get_nowait())
        return commands

    def next(self, timeout_s: float) -> ToWorker | None:
        """Wait for one command (``Stop`` among them); None when none came in time."""
        try:
            return self._commands.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _receive(self) -> None:
        while not self._stopping.is_set():
            try:
                command = self._connection.recv()
            except (EOFError, OSError):
                command = Stop()
            if isinstance(command, Stop):
                self._stopping.set()
            if isinstance(command, SetLogLevel):
                set_up_logs(command.level)
            else:
                self._commands.put(command)
