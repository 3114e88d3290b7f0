"""Does the GPU answer? Asked in a process of its own, which a device that hangs may keep.

After a CUDA error such as an illegal address the context of the process is of no use any more, and whatever
asks a device that hangs may wait for ever. A child with a context of its own finds out at no risk.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from cosyd.errors import CosydError

log = logging.getLogger(__name__)

LIMIT_S = 15.0  # a context takes a quarter of a second, on a Jetson with a cold driver some seconds
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 8.0  # an engine whose trouble is over is back within 30 s
WORDS = 1 << 20  # written to the device and read back


class Asking(Protocol):
    """One question that is being answered (``Trial``)."""

    def poll(self) -> str | None:
        """None while it is; "" when the GPU answered; else why not."""
        ...

    def close(self) -> None: ...


class Trial:
    """One child. Whoever starts it closes it. ``target``: what the child does, given the pipe and the GPU."""

    def __init__(
        self,
        index: int = 0,
        limit_s: float = LIMIT_S,
        target: Callable[[Connection, int], None] | None = None,
    ) -> None:
        self._index, self._limit_s, self._target = index, limit_s, target or _child
        self._process: Any = None
        self._pipe: Connection | None = None
        self._started = 0.0

    def start(self) -> Trial:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe(duplex=False)
        arguments = (theirs, self._index)
        self._process = context.Process(target=self._target, args=arguments, name="cosyd-trial", daemon=True)
        self._started = time.monotonic()
        self._process.start()
        theirs.close()
        return self

    def poll(self) -> str | None:
        if self._pipe is None:
            return "not asked"
        with contextlib.suppress(EOFError, OSError):
            if self._pipe.poll():
                return str(self._pipe.recv())
        if not self._process.is_alive():
            return f"the process that asked ended with code {self._process.exitcode}"
        if time.monotonic() - self._started > self._limit_s:
            return f"no answer within {self._limit_s:g} s"
        return None

    def close(self) -> None:
        """Idempotent; a child that still waits is killed."""
        if self._pipe is None:
            return
        self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()
        self._pipe = None


def _child(pipe: Connection, index: int) -> None:
    from cosyd.engine.cuda import CudaMemory

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; it ends us
    try:
        memory = CudaMemory(index)
        sent = np.arange(WORDS, dtype=np.uint32)
        buffer = memory.allocate(sent.nbytes)
        memory.write(buffer, sent, memory.stream)
        back = memory.read(buffer, sent.shape, sent.dtype, memory.stream)
        fault = "" if np.array_equal(sent, back) else "what was written came back changed"
    except CosydError as error:
        fault = str(error)
    with contextlib.suppress(OSError):  # nobody is there any more
        pipe.send(fault)


class Revival:
    """Asks, from a failure on, until the GPU answers: after 1, 2, 4, 8, 8 … s. For one thread.

    ``ask`` starts a question. Each of several failures begins anew.
    """

    def __init__(
        self,
        ask: Callable[[], Asking] = lambda: Trial().start(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._clock = ask, clock
        self._asking: Asking | None = None
        self._next_at: float | None = None
        self._pause = FIRST_PAUSE_S

    def failed(self) -> None:
        """The GPU failed: begin to ask."""
        self._pause = FIRST_PAUSE_S
        self._next_at = self._clock() + self._pause

    def poll(self) -> bool:
        """To be called now and then; True once, when it answers."""
        if self._asking is not None:
            return self._heard(self._asking)
        if self._next_at is not None and self._clock() >= self._next_at:
            self._asking = self._ask()
        return False

    def _heard(self, asking: Asking) -> bool:
        answer = asking.poll()
        if answer is None:
            return False
        self.close()
        if not answer:
            self._next_at = None
            return True
        self._pause = min(LONGEST_PAUSE_S, 2 * self._pause)
        self._next_at = self._clock() + self._pause
        log.info("the GPU does not answer yet: %s; asked again in %.0f s", answer, self._pause)
        return False

    def close(self) -> None:
        """Idempotent."""
        if self._asking is not None:
            self._asking.close()
            self._asking = None
