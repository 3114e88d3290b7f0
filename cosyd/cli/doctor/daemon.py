"""Is a daemon running here, and is it well?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosyd.cli.doctor.check import Check, Setup, fail, ok, warn
from cosyd.cli.endpoints import configured_endpoints
from cosyd.cli.meter import Meters, complaints
from cosyd.client import Client, ControlClient, Level
from cosyd.config.load import Loaded
from cosyd.errors import CosydError

ANSWER_S = 2.0
LEVELS_S = 1.5  # levels come several times a second unless publish.level_ms says otherwise


def running(loaded: Loaded) -> bool:
    """Whether a daemon answers on this machine: then the devices are its own."""
    return _status(configured_endpoints(loaded)[1]) is not None


def examine(setup: Setup) -> Iterator[Check]:
    events, address = configured_endpoints(setup.loaded)
    if not address.startswith("ipc:///"):
        yield ok("daemon", f"commands are taken at {address}; ask it: cosyd ctl status")
    elif not Path(address.removeprefix("ipc://")).exists():
        yield ok("daemon", "not running")
    elif (status := _status(address)) is None:
        message = f"there is a socket at {address}, but nobody answers"
        yield warn("daemon", message, "start it: systemctl start cosyd, or cosyd run")
    else:
        yield from _examine(status)
        yield from signals(events)


def _status(address: str) -> dict[str, Any] | None:
    """The reply of a daemon at a local socket; None without one."""
    if not address.startswith("ipc:///") or not Path(address.removeprefix("ipc://")).exists():
        return None
    try:
        with ControlClient(address) as control:
            return control.request("status", timeout_s=ANSWER_S)
    except CosydError:
        return None


def _examine(status: dict[str, Any]) -> Iterator[Check]:
    yield ok("daemon", f"running, pid {status['pid']}, version {status['version']}")
    for source in status["sources"]:
        yield source_state(source)
    for worker in status["workers"]:
        if worker["crash_loop"]:
            message = f"keeps crashing: {worker['last_error']}"
            yield fail(f"daemon.worker.{worker['name']}", message, "see the log: journalctl -u cosyd")


def source_state(source: dict[str, Any]) -> Check:
    name = f"daemon.source.{source['name']}"
    reason = f": {source['reason']}" if source["reason"] else ""
    if source["status"] in ("lost", "failed"):
        return fail(name, f"{source['status']}{reason}", "plug the device in; see: cosyd devices")
    if source["lost_frames"] or source["overruns"]:
        message = f"{source['status']}, {source['overruns']} overruns, {source['lost_frames']} frames lost"
        return warn(name, message, "the machine is too busy; see docs/operations.md")
    if source.get("faults"):
        return warn(
            name, "; ".join(source["faults"]), "see docs/echo.md, channels that are not as they should"
        )
    return ok(name, f"{source['status']}{reason}")


def signals(events: str) -> Iterator[Check]:
    """What the running daemon's levels say of each channel."""
    meters: dict[str, Meters] = {}
    until = time.monotonic() + LEVELS_S
    with Client(events, None, ("level.",)) as client:
        while (left_s := until - time.monotonic()) > 0:
            level = client.receive(left_s)
            if isinstance(level, Level):
                channels = meters.setdefault(level.source, Meters())
                channels.accept(level.rms_db, level.peak_db, level.clipped, time.monotonic())
    for source, found in meters.items():
        silent = complaints(found)
        name = f"daemon.signal.{source}"
        if silent:
            remedy = f"unmute the input, or leave it out with sources.{source}.channel_map"
            yield warn(name, ", ".join(silent), remedy)
        else:
            yield ok(name, f"all {len(found.channels)} channels carry sound")
