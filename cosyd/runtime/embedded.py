"""A daemon of one's own: started as a child with private sockets, gone when the block ends.

For `cosyd listen` and tests, which want the real daemon without touching a running one. It ends also when the
process that started it is killed: the daemon holds the reading end of a pipe (`cosyd run --lifeline`), whose
other end nobody but that process has.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import yaml

from cosyd.config.paths import Paths
from cosyd.config.schema import PathsConfig
from cosyd.errors import AudioError, CosydError
from cosyd.publish.messages import State

STOP_S = 15.0  # time for the last utterance to be recognised
FAILED_S = 5.0  # from the failure of its only source to the daemon's end: its workers stop before it
POLL_S = 0.02
# Variables win over files: any other would override ``config``, or give away that the sockets are private.
INHERITED = ("COSYD_DEBUG", "COSYD_MODELS_DIR", "COSYD_PATHS__MODELS", "COSYD_PATHS__KEYS")


class EmbeddedDaemon:
    """Context manager. ``config`` is a configuration as YAML would give it (only what differs).

    Its journal, cache and sockets live in a temporary folder; models and keys are the usual ones.
    ``environment`` is added to this process's. Standard input is passed on, so that a source may read it.
    """

    def __init__(
        self, config: dict[str, object], *, environment: Mapping[str, str] | None = None, quiet: bool = True
    ) -> None:
        self._config = config
        self._environment = environment or {}
        self._quiet = quiet
        self._folder = tempfile.TemporaryDirectory(prefix="cosyd-", ignore_cleanup_errors=True)
        self._lifeline: BinaryIO | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    @property
    def events(self) -> str:
        return f"ipc://{self.folder}/run/events.sock"

    @property
    def control(self) -> str:
        return f"ipc://{self.folder}/run/control.sock"

    @property
    def paths(self) -> Paths:
        """Its folders; the models and keys are wherever the configuration has them."""
        private = {
            "state": self.folder / "state",
            "cache": self.folder / "cache",
            "runtime": self.folder / "run",
        }
        return dataclasses.replace(Paths.resolve(PathsConfig()), **private)

    @property
    def config_file(self) -> Path:
        return self.folder / "cosyd.yaml"

    @property
    def log_file(self) -> Path:
        return self.folder / "log"

    def __enter__(self) -> EmbeddedDaemon:
        private = {name: f"{self.folder}/{name}" for name in ("state", "cache")}
        paths = {**private, "runtime": f"{self.folder}/run", **dict(self._config.get("paths", {}))}  # type: ignore[call-overload]
        self.config_file.write_text(yaml.safe_dump({**self._config, "paths": paths}))
        theirs, ours = os.pipe()
        self._lifeline = os.fdopen(ours, "wb")
        try:
            self.process = self._started(theirs)
        except OSError:
            self._release()
            raise
        finally:
            os.close(theirs)
        return self

    def _started(self, lifeline: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "cosyd", "run", "-c", str(self.config_file)]
        log = self.log_file.open("wb") if self._quiet else None
        try:
            return subprocess.Popen(
                [*command, "--lifeline", str(lifeline)],
                stderr=log,
                env={**_inherited(), **self._environment},
                pass_fds=(lifeline,),
                # A group of its own: Ctrl-C is for the program that embeds it, which then ends it in order.
                start_new_session=True,
            )
        finally:
            if log:
                log.close()

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def end(self) -> None:
        """Ask it to end in order: what was being said is still recognised and published. Does not wait."""
        if self.process is not None and not self.ended:
            self.process.send_signal(signal.SIGTERM)

    def check(self) -> None:
        """Raise CosydError, with the daemon's own last line, if it has ended."""
        if self.process is not None and self.process.poll() is not None:
            lines = self.log_file.read_text(errors="replace").splitlines() if self._quiet else []
            said = next((line for line in reversed(lines) if line.startswith("cosyd: ")), "")
            error = CosydError(said.removeprefix("cosyd: ") or "the daemon ended without a word")
            error.exit_code = max(self.process.returncode, 1)  # type: ignore[misc]
            raise error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if self.process is not None:
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._release()

    def _release(self) -> None:
        if self._lifeline is not None:
            self._lifeline.close()
        self._folder.cleanup()


def check_source(state: State, check_daemon: Callable[[], None]) -> None:
    """Raise if ``state``, of the only source of a daemon of one's own, says that nothing will be heard.

    A source that failed ends the daemon, whose own error is raised (``check_daemon``): it has the right exit
    code. A device that cannot be opened is tried for ever by a daemon, but who has just asked to listen to it
    wants to know. One that was open before is waited for.
    """
    if state.status == "lost" and not state.rate_hz:
        raise AudioError(state.reason)
    if state.status != "failed":
        return
    deadline = time.monotonic() + FAILED_S
    while time.monotonic() < deadline:
        check_daemon()
        time.sleep(POLL_S)
    raise AudioError(state.reason)


def _inherited() -> dict[str, str]:
    """This process's environment without a service manager's sockets and without settings of cosyd's."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")
        and (name in INHERITED or not name.startswith("COSYD_"))
    }
