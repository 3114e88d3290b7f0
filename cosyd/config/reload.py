"""Live reload: validate, diff, swap. A fault anywhere leaves the running configuration as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosyd.config import checks
from cosyd.config.load import Loaded, leaf_keys, name_of, value_of
from cosyd.config.paths import Locations
from cosyd.config.schema import Config
from cosyd.config.tree import Key
from cosyd.errors import ConfigError

SETTLE_MS = 400  # a save is over when the files rest for so long; editors write, sync and rename in less
LONGEST_SAVE_MS = 5_000  # something that never rests is looked at this often


@dataclass(frozen=True)
class Changes:
    """What a new configuration changes. Keys are dotted, sources by name.

    ``applied`` holds ``sources.NAME`` for a source that came or went, ``sources.NAME.KEY`` for one that
    changed; the three tuples of names say the same for whoever starts and stops them.
    """

    applied: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.applied or self.needs_restart)


@dataclass(frozen=True)
class Outcome:
    """A finished attempt to reload. ``rejected``: why nothing changed; empty when it was swapped."""

    config: Config
    changes: Changes
    rejected: tuple[str, ...] = ()
    loaded: Loaded | None = None


def attempt(running: Config, load: Callable[[], Loaded]) -> Outcome:
    """Load again and work out what follows; with any fault the outcome is the running configuration."""
    try:
        loaded = load()
    except ConfigError as error:
        return Outcome(running, Changes(), error.problems)
    merged = merge_live(running, loaded.config)
    clashes = [
        f"{name_of(merged, found.keys[0])}: {found.what} (until a restart)" for found in checks.errors(merged)
    ]
    if clashes:  # what is new and live does not go with what is old until a restart
        return Outcome(running, Changes(), tuple(clashes))
    return Outcome(merged, diff(running, loaded.config), (), loaded)


def diff(old: Config, new: Config) -> Changes:
    """The keys whose values differ."""
    applied: list[str] = []
    needs_restart: list[str] = []
    for key in _section_keys(new):
        if value_of(old, key) != value_of(new, key):
            (applied if is_live(key) else needs_restart).append(name_of(new, key))
    before = {source.name: source for source in old.sources}
    after = {source.name: source for source in new.sources}
    added = tuple(name for name in after if name not in before)
    removed = tuple(name for name in before if name not in after)
    changed = tuple(name for name in after if name in before and after[name] != before[name])
    applied += [f"sources.{name}" for name in (*added, *removed)]
    for name in changed:
        fields = type(after[name]).model_fields
        differing = [f for f in fields if getattr(before[name], f) != getattr(after[name], f)]
        applied += [f"sources.{name}.{field}" for field in differing]
    return Changes(tuple(applied), tuple(needs_restart), added, removed, changed)


def merge_live(old: Config, new: Config) -> Config:
    """``new``, with the values of ``old`` where only a restart can change them."""
    kept: dict[str, dict[str, Any]] = {}
    for key in _section_keys(new):
        if not is_live(key):
            kept.setdefault(str(key[0]), {})[str(key[1])] = value_of(old, key)
    sections = {name: getattr(new, name).model_copy(update=values) for name, values in kept.items()}
    return new.model_copy(update=sections)


def is_live(key: Key) -> bool:
    """Whether a reload applies the key at once."""
    section, name = str(key[0]), str(key[-1])
    if section == "sources":
        return True
    extra = type(getattr(_DEFAULTS, section)).model_fields[name].json_schema_extra
    return isinstance(extra, dict) and extra.get("reload") == "live"


def _section_keys(config: Config) -> list[Key]:
    """The keys outside of ``sources``."""
    return [key for key in leaf_keys(config) if key[0] != "sources"]


_DEFAULTS = Config()

# --- watching ------------------------------------------------------------------------------------------


async def watch(locations: Locations, stop: asyncio.Event | None = None) -> AsyncIterator[list[Path]]:
    """Yields the files that changed, once a save, until ``stop`` is set.

    Folders are watched, not files: editors rename a new file over the old one. What counts is the
    content, so a file that is touched, or saved as it was, yields nothing.
    """
    from watchfiles import awatch

    folders = watched_folders(locations)
    if not folders:
        return
    known = contents(locations)
    async for _ in awatch(
        *folders, recursive=False, step=SETTLE_MS, debounce=LONGEST_SAVE_MS, stop_event=stop
    ):
        now = contents(locations)
        changed = sorted({path for path, _content in now.items() ^ known.items()})
        known = now
        if changed:
            yield changed


def watched_folders(locations: Locations) -> list[Path]:
    """The existing folders in which a change can matter, those behind symbolic links included."""
    folders: set[Path] = set()
    for entry in locations.entries:
        folder = entry if entry.is_dir() else entry.parent
        folders |= {folder.absolute(), entry.resolve().parent if not entry.is_dir() else entry.resolve()}
    return sorted(folder for folder in folders if folder.is_dir())


def contents(locations: Locations) -> dict[Path, bytes | None]:
    """What the files hold; None for one that cannot be read."""
    return {path: _content(path) for path in locations.files()}


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
