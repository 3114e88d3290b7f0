"""Folders, keys, shared memory, systemd."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cosyd.cli.doctor.check import Check, Setup, fail, ok, warn
from cosyd.config.paths import SHARED_MEMORY
from cosyd.config.schema import SourceConfig

UNIT = "cosyd.service"
SYSTEMCTL_S = 5.0
# What a source takes at most when the configuration leaves it to the device: 8 channels at 48 kHz, 32 bit.
USUAL_RATE_HZ, USUAL_CHANNELS, WIDEST_SAMPLE_BYTES = 48_000, 8, 4


def examine(setup: Setup) -> Iterator[Check]:
    for name in ("state", "cache", "runtime"):
        yield folder(f"folders.{name}", getattr(setup.paths, name), name)
    if setup.config.publish.curve:
        yield from keys(setup.paths.keys)
    yield shared_memory(SHARED_MEMORY, sum(map(ring_bytes, setup.config.sources)))
    yield from systemd()


def folder(name: str, path: Path, key: str) -> Check:
    """Whether it is writable, or can be made."""
    existing = next((parent for parent in (path, *path.parents) if parent.exists()), Path("/"))
    if not existing.is_dir():
        return fail(name, f"{existing} is no folder", f"remove it, or set paths.{key}")
    if not os.access(existing, os.W_OK | os.X_OK):
        return fail(name, f"{path} may not be written by this user", f"run as its owner, or set paths.{key}")
    if existing != path:
        return ok(name, f"{path} will be made")
    if stat.S_IMODE(path.stat().st_mode) & 0o002:
        return warn(name, f"{path} can be written by everybody", f"chmod o-w {path}")
    return ok(name, f"{path} is writable")


def keys(path: Path) -> Iterator[Check]:
    """The daemon's secret key is there and read by nobody else."""
    secret = path / "server.key_secret"
    if not secret.exists():
        yield fail("keys.server", f"{secret} is not there, but publish.curve is on", "cosyd keys server")
        return
    mode = stat.S_IMODE(secret.stat().st_mode)
    if mode & 0o077:
        yield fail("keys.server", f"{secret} can be read by others (mode {mode:04o})", f"chmod 600 {secret}")
    else:
        yield ok("keys.server", f"{secret} is there")
    clients = list((path / "clients").glob("*.key"))
    if clients:
        yield ok("keys.clients", f"{len(clients)} clients are admitted")
    else:
        yield warn("keys.clients", "no client is admitted", "cosyd keys NAME")


def ring_bytes(source: SourceConfig) -> int:
    """Shared memory of a source at most."""
    rate_hz, channels = source.rate_hz or USUAL_RATE_HZ, source.channels or USUAL_CHANNELS
    return int(source.buffer_s * rate_hz * channels * WIDEST_SAMPLE_BYTES)


def shared_memory(path: Path, needed: int) -> Check:
    """Room for the rings."""
    if not path.is_dir() or not os.access(path, os.W_OK):
        return fail("memory.shared", f"{path} is not writable", "mount -t tmpfs tmpfs /dev/shm")
    free = shutil.disk_usage(path).free
    message = f"{free >> 20} MB free in {path}, the rings need up to {needed >> 20} MB"
    if free < needed:
        return fail(
            "memory.shared", message, "lower sources.NAME.buffer_s, or give more (docker: --shm-size)"
        )
    return ok("memory.shared", message)


def systemd() -> Iterator[Check]:
    """The unit, where the system is run by systemd."""
    if not Path("/run/systemd/system").is_dir():
        yield ok("systemd.unit", "this system is not run by systemd")
        return
    state = unit_state()
    if state is None:
        yield warn("systemd.unit", "systemctl does not answer")
    elif state.get("LoadState") != "loaded":
        yield ok("systemd.unit", f"{UNIT} is not installed: cosyd is started by hand")
    else:
        yield _unit(state)
        if importlib.util.find_spec("systemd") is None:
            remedy = "pip install 'cosyd[systemd]'"
            yield fail("systemd.python", "the unit is installed, but Python's systemd module is not", remedy)


def unit_state() -> dict[str, str] | None:
    """What systemctl knows of the unit; None when it cannot be asked."""
    command = ["systemctl", "show", UNIT, "--property=LoadState,ActiveState,SubState,Result,UnitFileState"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SYSTEMCTL_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def _unit(state: dict[str, str]) -> Check:
    about = f"{UNIT} is {state.get('ActiveState')} ({state.get('SubState')}), {state.get('UnitFileState')}"
    if state.get("ActiveState") == "failed":
        message = f"{about}: {state.get('Result')}"
        return fail("systemd.unit", message, f"journalctl -u {UNIT} says why; then systemctl restart cosyd")
    if state.get("UnitFileState") == "disabled":
        return warn("systemd.unit", about, "systemctl enable --now cosyd")
    return ok("systemd.unit", about)
