"""Compiling in a child process: a build that is killed, runs out of memory or hangs costs one line.

A build takes seconds to many minutes and gigabytes; TensorRT is known to be killed for it on small machines.
The child is started with ``spawn``, writes and checks the plan itself, and sends no more than how it went.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cosyd.engine.compile import BuildRequest, check_plan, compile_plan
from cosyd.engine.plan import PlanKey, write_plan
from cosyd.engine.store import PlanStore
from cosyd.errors import CosydError

LIMIT_S = (
    1_800.0  # the longest build that is let run; Moonshine's takes half a minute on a core without a GPU
)
NICE = 10  # recognition goes on meanwhile
LOOK_EVERY_S = 1.0


def nobody_waits() -> None:
    """For who is not told that a build still runs."""


@dataclass(frozen=True)
class Outcome:
    """``fault``: one line, empty when the plan was written."""

    fault: str
    took_s: float


class Build:
    """One running build. Whoever starts it waits for it or closes it; both end the child."""

    def __init__(self, request: BuildRequest, key: PlanKey, path: Path, limit_s: float = LIMIT_S) -> None:
        self._request, self._key, self._path = request, key, path
        self._limit_s = limit_s
        self._process: Any = None
        self._pipe: Connection | None = None
        self._started = 0.0

    def start(self) -> Build:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe(duplex=False)
        arguments = (theirs, self._request, self._key, self._path)
        name = f"cosyd-build-{self._request.name}"
        self._process = context.Process(target=_child, args=arguments, name=name, daemon=True)
        self._started = time.monotonic()
        self._process.start()
        theirs.close()
        return self

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def poll(self) -> Outcome | None:
        """How it went, once it is over; None while it runs. Ends one that takes too long."""
        if self._process.is_alive():
            if time.monotonic() - self._started < self._limit_s:
                return None
            return self._ended(f"took longer than {self._limit_s:g} s and was ended")
        return self._ended("")

    def wait(self, alive: Callable[[], None] = nobody_waits) -> Outcome:
        """Until it is over or has taken too long. ``alive`` is called about once a second."""
        while (outcome := self.poll()) is None:
            self._process.join(LOOK_EVERY_S)
            alive()
        return outcome

    def close(self) -> None:
        """Idempotent; a child that still runs is killed."""
        if self._process is not None and self._process.is_alive():
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def __enter__(self) -> Build:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _ended(self, fault: str) -> Outcome:
        took = time.monotonic() - self._started
        said = self._said()
        if fault or said is None:
            self.close()
            said = fault or _how_it_died(self._process.exitcode)
        self._process.join()
        prefix = f"{self._request.name}: the TensorRT build "
        return Outcome(said if not said or said.startswith(self._request.name) else prefix + said, took)

    def _said(self) -> str | None:
        """The child's last word; None when it had none."""
        if self._pipe is None:
            return None
        with contextlib.suppress(EOFError, OSError):
            if self._pipe.poll():
                return str(self._pipe.recv())
        return None


def _how_it_died(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        likely = "; most likely there was too little memory for it" if -code == signal.SIGKILL else ""
        return f"was ended by {name}{likely}"
    return f"ended with exit code {code} without a word"


def _child(pipe: Connection, request: BuildRequest, key: PlanKey, path: Path) -> None:
    """The process: compiles, writes, checks. Sends "" when the plan is on disk, else one line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; it ends us
    os.nice(NICE)
    try:
        plan = compile_plan(request)
        write_plan(path, key, plan)
        PlanStore(path.parent).note_check(key, check_plan(request, plan))
        fault = ""
    except CosydError as error:
        fault = str(error)
    except OSError as error:
        fault = f"{request.name}: the plan cannot be written to {path}: {error.strerror}"
    except MemoryError:
        fault = f"{request.name}: there is too little memory to compile it"
    with contextlib.suppress(OSError):  # nobody is there any more
        pipe.send(fault)
        pipe.close()
