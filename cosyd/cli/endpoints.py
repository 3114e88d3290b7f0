"""Where the daemon of this machine is, and with which keys one talks to it."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from cosyd.cli.common import note
from cosyd.cli.settings import load_config
from cosyd.client import Client, ClientKeys, ControlClient, default_endpoints
from cosyd.config.load import Loaded
from cosyd.config.paths import control_endpoint, events_endpoint


@dataclass(frozen=True)
class Connection:
    """Addresses, and the files with CURVE keys where TCP needs them. ``control`` is None where unknown."""

    events: str
    control: str | None
    server_key: Path | None = None
    secret_key: Path | None = None

    @property
    def keys(self) -> ClientKeys | None:
        if self.server_key is None or self.secret_key is None:
            return None
        return ClientKeys.load(self.server_key, self.secret_key)


def find_daemon(args: Namespace) -> Connection:
    """The daemon that ``--connect`` names, else the configured one."""
    loaded = load_config(args)
    if args.connect:
        return Connection(args.connect, None, *_key_files(args, loaded, args.connect))
    events, control = configured_endpoints(loaded)
    return Connection(events, control, *_key_files(args, loaded, events))


def configured_endpoints(loaded: Loaded) -> tuple[str, str]:
    """Events and control. An ordinary user without a daemon of their own means the system's."""
    events, control = (
        events_endpoint(loaded.config, loaded.paths),
        control_endpoint(loaded.config, loaded.paths),
    )
    if loaded.config.paths.runtime is not None:
        return events, control
    usual = default_endpoints()
    return (
        events if loaded.config.publish.endpoint else usual[0],
        control if loaded.config.control.endpoint else usual[1],
    )


def _key_files(args: Namespace, loaded: Loaded, address: str) -> tuple[Path | None, Path | None]:
    """The key files: those given, else ``server.key`` and ``client.key_secret`` in ``paths.keys``."""
    if not address.startswith("tcp://") or not (loaded.config.publish.curve or args.key):
        return None, None
    folder = loaded.paths.keys
    return args.server_key or folder / "server.key", args.key or folder / "client.key_secret"


def open_client(connection: Connection, topics: tuple[str, ...]) -> Client:
    warn_if_absent(connection.events)
    return Client(
        connection.events,
        connection.control,
        topics,
        server_key=connection.server_key,
        secret_key=connection.secret_key,
    )


def open_control(connection: Connection) -> ControlClient:
    """For `--connect`, the one address that was given is that of the commands."""
    return ControlClient(connection.control or connection.events, connection.keys)


def warn_if_absent(address: str) -> None:
    """ZeroMQ waits in silence for whoever is not there."""
    path = address.removeprefix("ipc://")
    if address.startswith("ipc:///") and not Path(path).exists():
        note(f"no daemon at {address} yet, waiting for one (start it: cosyd run)")
