"""One run of the real daemon on one recording, seen by a real subscriber."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosyd.bench.daemon import Daemon, Usage
from cosyd.client import AnyMessage, AsrFinal, AsrPartial, Client, State
from cosyd.errors import CosydError

POLL_S = 0.5  # how often the daemon is looked after
STUCK_S = 60.0  # a run whose source has not moved for so long is given up


@dataclass
class Session:
    """What came of a run. ``usage``: (seconds since listening, what was in use), every ``POLL_S`` or so.

    ``final_ms``, ``partial_ms``: from the capture of the last sample used to the arrival here.
    """

    finals: list[AsrFinal] = field(default_factory=list)
    final_ms: list[float] = field(default_factory=list)
    partial_ms: list[float] = field(default_factory=list)
    usage: list[tuple[float, Usage]] = field(default_factory=list)
    lost: int = 0

    @property
    def cpu_share(self) -> float:
        """Processor time per time, over the whole run, start-up left out."""
        (start, first), (end, last) = self.usage[0], self.usage[-1]
        return (last.cpu_s - first.cpu_s) / (end - start)


def play(
    path: Path,
    *,
    realtime: bool,
    loop: bool = False,
    stop_after_s: float | None = None,
    asr: Mapping[str, Any] | None = None,
    stuck_s: float = STUCK_S,
) -> Session:
    """Feed ``path`` to the daemon until its end, or until ``stop_after_s`` seconds of audio. ``asr``:
    settings of that section. ``stuck_s``: a source that does not move for so long is given up; more where
    the recogniser is slower than the recording."""
    source: dict[str, Any] = {
        "name": "bench",
        "type": "file",
        "path": str(path),
        "realtime": realtime,
        "loop": loop,
    }
    with (
        Daemon({"sources": [source], "asr": dict(asr or {})}) as daemon,
        Client(daemon.events, daemon.control, ("asr.", "state.", "level.")) as client,
    ):
        session = _follow(client, daemon, stop_after_s, stuck_s)
        daemon.stop()
        session.lost = client.lost
    return session


def _follow(client: Client, daemon: Daemon, stop_after_s: float | None, stuck_s: float) -> Session:
    session = Session()
    look = _Look(daemon, session)
    moved, sample, rate_hz = time.monotonic(), 0, 0
    while True:
        message = client.receive(POLL_S)
        look()
        if message is not None and message.sample > sample:
            moved, sample = time.monotonic(), message.sample
        if time.monotonic() - moved > stuck_s:
            raise CosydError(f"the source stands at sample {sample}:\n{daemon.log.read_text()}")
        if message is None:
            daemon.check()
        elif isinstance(message, AsrFinal | AsrPartial):
            _note(session, message)
        elif isinstance(message, State):
            rate_hz = message.rate_hz or rate_hz
            if message.status == "listening":
                look.start()
        if _over(message) or (rate_hz and stop_after_s is not None and sample >= stop_after_s * rate_hz):
            look(now=True)
            return session


def _over(message: AnyMessage | None) -> bool:
    if isinstance(message, State) and message.status == "failed":
        raise CosydError(f"the source failed: {message.reason}")
    return isinstance(message, State) and message.status == "ended"


def _note(session: Session, message: AsrFinal | AsrPartial) -> None:
    latency_ms = message.latency_ms + (time.monotonic_ns() - message.t_mono_ns) / 1e6
    if isinstance(message, AsrFinal):
        session.finals.append(message)
        session.final_ms.append(latency_ms)
    else:
        session.partial_ms.append(latency_ms)


class _Look:
    """Writes down what the daemon uses, at most every ``POLL_S``, from ``start`` on."""

    def __init__(self, daemon: Daemon, session: Session) -> None:
        self._daemon = daemon
        self._session = session
        self._started: float | None = None
        self._next = 0.0

    def start(self) -> None:
        if self._started is None:
            self._started = time.monotonic()
            self(now=True)

    def __call__(self, now: bool = False) -> None:
        clock = time.monotonic()
        if self._started is not None and (now or clock >= self._next):
            self._next = clock + POLL_S
            self._session.usage.append((clock - self._started, self._daemon.usage()))
