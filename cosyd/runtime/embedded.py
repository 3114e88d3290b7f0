"""A daemon of one's own: started as a child with private sockets, gone when the block ends.

For `cosyd listen`, the demo and tests, which all want the real daemon without touching a running one.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import yaml

from cosyd.config.paths import Paths
from cosyd.config.schema import PathsConfig
from cosyd.errors import CosydError

STOP_S = 15.0  # time for the last utterance to be recognised
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
        command = [sys.executable, "-m", "cosyd", "run", "-c", str(self.config_file)]
        environment = {**_inherited(), **self._environment}
        log = self.log_file.open("wb") if self._quiet else None
        try:
            # A group of its own: Ctrl-C is for the program that embeds it, which then ends it in order.
            self.process = subprocess.Popen(command, stderr=log, env=environment, start_new_session=True)
        finally:
            if log:
                log.close()
        return self

    def check(self) -> None:
        """Raise CosydError, with the daemon's own last line, if it has ended."""
        if self.process is not None and self.process.poll() is not None:
            lines = self.log_file.read_text(errors="replace").splitlines() if self._quiet else []
            said = next((line for line in reversed(lines) if line.startswith("cosyd: ")), "")
            error = CosydError(said.removeprefix("cosyd: ") or "the daemon ended without a word")
            error.exit_code = self.process.returncode or 1  # type: ignore[misc]
            raise error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._folder.cleanup()


def _inherited() -> dict[str, str]:
    """This process's environment without a service manager's sockets and without settings of cosyd's."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")
        and (name in INHERITED or not name.startswith("COSYD_"))
    }
