"""The publishing half of a daemon for tests, in a process of its own (``publish_daemon.py``)."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

DAEMON = Path(__file__).with_name("publish_daemon.py")


class Daemon:
    """The publishing half of a daemon, in a process that can be killed and started again."""

    def __init__(self, root: Path, config: str = "{}") -> None:
        self._command = [sys.executable, str(DAEMON), str(root), config]
        self._process: subprocess.Popen[str] | None = None
        self.events = self.control = ""

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.events, self.control = self._line().split()

    def tell(self, line: str) -> str:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        return self._line()

    def finals(self, *texts: str) -> None:
        for text in texts:
            self.tell(f"final {text}")

    def kill(self) -> None:
        assert self._process
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Close its input, and wait for its end."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        with process:
            assert process.stdin
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        return process.returncode

    def _line(self) -> str:
        assert self._process
        assert self._process.stdout
        return self._process.stdout.readline().strip()
