"""Where things are: folders, sockets, rings and configuration files.

Nothing here touches the disk, except ``Paths.create``.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cosyd.config.schema import Config, PathsConfig
from cosyd.errors import CosydError

SYSTEM_CONFIG = Path("/etc/cosyd")
SYSTEM_RUNTIME = Path("/run/cosyd")
SHARED_MEMORY = Path("/dev/shm")
FOLDER_MODE = 0o750  # the service's group may reach the sockets; others may not


@dataclass(frozen=True)
class Paths:
    """The folders that are in effect."""

    models: Path
    state: Path
    cache: Path
    runtime: Path
    keys: Path

    @classmethod
    def resolve(
        cls, section: PathsConfig, *, environ: Mapping[str, str] | None = None, uid: int | None = None
    ) -> Paths:
        """The configured folders; where there is none, systemd's, else root's or the user's own."""
        defaults = default_paths(
            os.environ if environ is None else environ, os.geteuid() if uid is None else uid
        )
        return cls(
            **{
                name: Path(chosen).expanduser() if chosen is not None else getattr(defaults, name)
                for name, chosen in section.model_dump().items()
            }
        )

    def create(self) -> None:
        """Make the folders that the daemon writes to. Raises CosydError when one cannot be had or trusted."""
        for folder in (self.state, self.cache, self.runtime):
            try:
                folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            except OSError as error:
                raise CosydError(
                    f"cannot make the folder {folder}: {error.strerror}; "
                    "run as a user who may, or set another one under paths"
                ) from error
        self._distrust_strangers()

    def _distrust_strangers(self) -> None:
        """Refuse a runtime folder that someone else made first: whoever owns it could replace our sockets."""
        status = self.runtime.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid in (os.geteuid(), 0):
            return
        if self.runtime.parent != Path("/tmp"):  # elsewhere the administrator decides who may write
            return
        raise CosydError(f"{self.runtime} belongs to somebody else; remove it or set paths.runtime")


def default_paths(environ: Mapping[str, str], uid: int) -> Paths:
    """systemd's folders where it gives them, else root's or the user's."""
    base = _system_paths() if uid == 0 else _user_paths(environ, uid)
    state = _systemd_folder(environ, "STATE_DIRECTORY")
    cache = _systemd_folder(environ, "CACHE_DIRECTORY")
    runtime = _systemd_folder(environ, "RUNTIME_DIRECTORY")
    config = _systemd_folder(environ, "CONFIGURATION_DIRECTORY")
    return Paths(
        models=state / "models" if state else base.models,
        state=state or base.state,
        cache=cache or base.cache,
        runtime=runtime or base.runtime,
        keys=config / "curve" if config else base.keys,
    )


def _system_paths() -> Paths:
    return Paths(
        models=Path("/var/lib/cosyd/models"),
        state=Path("/var/lib/cosyd"),
        cache=Path("/var/cache/cosyd"),
        runtime=SYSTEM_RUNTIME,
        keys=SYSTEM_CONFIG / "curve",
    )


def _user_paths(environ: Mapping[str, str], uid: int) -> Paths:
    """The XDG base directories; without XDG_RUNTIME_DIR a private folder in /tmp."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    return Paths(
        models=_xdg(environ, "XDG_DATA_HOME", ".local/share") / "models",
        state=_xdg(environ, "XDG_STATE_HOME", ".local/state"),
        cache=_xdg(environ, "XDG_CACHE_HOME", ".cache"),
        runtime=Path(runtime) / "cosyd" if runtime else Path(f"/tmp/cosyd-{uid}"),
        keys=_xdg(environ, "XDG_CONFIG_HOME", ".config") / "curve",
    )


def _xdg(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """cosyd's folder in an XDG base directory. The specification has relative values ignored."""
    chosen = environ.get(variable, "")
    home = Path(environ.get("HOME") or Path.home())
    return (Path(chosen) if chosen.startswith("/") else home / below_home) / "cosyd"


def _systemd_folder(environ: Mapping[str, str], variable: str) -> Path | None:
    """The first of the folders that systemd.exec(5) lists there, separated by colons."""
    first = environ.get(variable, "").split(":")[0]
    return Path(first) if first else None


# --- sockets and rings ---------------------------------------------------------------------------------


def events_endpoint(config: Config, paths: Paths) -> str:
    """Address at which events are published."""
    return config.publish.endpoint or f"ipc://{paths.runtime}/events.sock"


def control_endpoint(config: Config, paths: Paths) -> str:
    """Address at which commands are taken."""
    return config.control.endpoint or f"ipc://{paths.runtime}/control.sock"


def ring_path(paths: Paths, source: str) -> Path:
    """The shared-memory file of a source; two daemons with different runtime folders never share one."""
    daemon = hashlib.sha256(os.fsencode(paths.runtime.absolute())).hexdigest()[:8]
    return SHARED_MEMORY / f"cosyd-{daemon}-{source}.ring"


# --- configuration files -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Locations:
    """Where configuration is read from, in order; a folder stands for its ``*.yaml`` files, sorted.

    ``required``: each entry was asked for by name, so it has to be there.
    """

    entries: tuple[Path, ...]
    required: bool = False

    def files(self) -> list[Path]:
        """The files to read now. A required entry is listed even when it is missing."""
        found: list[Path] = []
        for entry in self.entries:
            if entry.is_dir():
                found += sorted(entry.glob("*.yaml"))
            elif self.required or entry.exists() or entry.is_symlink():
                found.append(entry)
        return found


def default_locations(environ: Mapping[str, str] | None = None, uid: int | None = None) -> Locations:
    """The system's files, then, for ordinary users, their own."""
    environ = os.environ if environ is None else environ
    entries = [SYSTEM_CONFIG / "cosyd.yaml", SYSTEM_CONFIG / "conf.d"]
    if (os.geteuid() if uid is None else uid) != 0:
        entries.append(_xdg(environ, "XDG_CONFIG_HOME", ".config") / "cosyd.yaml")
    return Locations(tuple(entries))
