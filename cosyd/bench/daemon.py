"""The real daemon, started as a process of its own with a configuration of ours, in folders of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from cosyd.errors import CosydError
from cosyd.models.configured import configured_store

STOP_S = 30  # finishing what was said takes a second; a daemon that needs longer hangs


@dataclass(frozen=True)
class Usage:
    """What the daemon and its workers use: CPU seconds so far, resident bytes, open descriptors."""

    cpu_s: float
    rss_bytes: int
    descriptors: int
    processes: int


class Daemon:
    """``cosyd run`` as a child. Context manager; ``stop`` is idempotent.

    ``settings`` is the configuration, as in the file; folders and sockets are private unless it says else,
    only the models are the usual ones.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._folder = tempfile.TemporaryDirectory(prefix="cosyd-")
        self.folder = Path(self._folder.name)
        self.events = f"ipc://{self.folder}/events.sock"
        self.control = f"ipc://{self.folder}/control.sock"
        self.environment: dict[str, str] = {}  # added to ours when it starts
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Daemon:
        private = {name: str(self.folder) for name in ("state", "cache", "runtime", "keys")}
        private["models"] = str(configured_store().root)
        settings = {**self._settings, "paths": private | self._settings.get("paths", {})}
        config = self.folder / "cosyd.yaml"
        config.write_text(json.dumps(settings))  # JSON is YAML, too
        command = [*_ends_with_us(), str(Path(sys.executable).with_name("cosyd")), "run", "-c", str(config)]
        with self.log.open("wb") as log:
            # a session of its own: Ctrl-C is for the program that started it, which then stops it
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                env=_inherited() | self.environment,
            )
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._folder.cleanup()

    @property
    def log(self) -> Path:
        """What the daemon wrote to standard error."""
        return self.folder / "log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def check(self) -> None:
        """Raise CosydError with the daemon's own words and exit code when it has ended."""
        if self._process is not None and self._process.poll() is not None:
            words = self.log.read_text(errors="replace").strip().splitlines()
            error = CosydError(
                f"the daemon ended with exit code {self._process.returncode}: "
                + (words[-1] if words else "it said nothing")
            )
            error.exit_code = max(self._process.returncode, 1)  # type: ignore[misc]
            raise error

    def usage(self) -> Usage:
        """Summed over the daemon and its workers."""
        main = psutil.Process(self.pid)
        cpu_s, rss, descriptors, count = 0.0, 0, 0, 0
        for process in [main, *main.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess), process.oneshot():
                times = process.cpu_times()
                cpu_s += times.user + times.system
                rss += process.memory_info().rss
                descriptors += process.num_fds()
                count += 1
        return Usage(cpu_s, rss, descriptors, count)

    def stop(self) -> int:
        """Ask it to end, as systemd does; the exit code. Killed when it does not."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        return self._process.returncode


def _ends_with_us() -> list[str]:
    """A prefix for the command: the daemon is told to end when this process dies, however it dies."""
    tool = shutil.which("setpriv")
    return [tool, "--pdeathsig", "TERM"] if tool else []


def _inherited() -> dict[str, str]:
    """Our environment, without a service manager's that started us: it is not to hear of this daemon."""
    managed = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
    return {name: value for name, value in os.environ.items() if name not in managed}
