"""Addresses: what may be bound, with which permissions, and how a bind is undone.

``ipc://PATH`` is a socket that its owner and group may use (0660, in a folder of 0750). ``tcp://HOST:PORT``
needs CURVE unless HOST is the loopback. Nothing else is taken.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import zmq

from cosyd.errors import PublishError
from cosyd.publish.curve import DOMAIN, KeyPair

SOCKET_UMASK = 0o117  # leaves 0660
FOLDER_MODE = 0o750
MAX_PATH = 107  # bytes of a Unix socket's address in Linux
HEARTBEAT_MS = 10_000  # a TCP peer that is gone without a word is noticed after three of these


def check_address(address: str, key: str, curve: bool) -> None:
    """Refuse what must not be bound. ``key``: the configuration key it comes from."""
    kind, _, rest = address.partition("://")
    if kind == "ipc":
        _check_path(address, rest, key)
    elif kind == "tcp":
        if not _is_port(rest.rpartition(":")[2]) or ":" not in rest:
            raise PublishError(f"{key}: {address}: write tcp://HOST:PORT, with a port of 0 to 65535 or *")
        if not curve and not is_loopback(address):
            raise PublishError(
                f"{key}: {address} can be reached from the network without encryption; "
                "set publish.curve: true and make keys with `cosyd keys server`, or bind to 127.0.0.1"
            )
    else:
        raise PublishError(f"{key}: {address} is neither ipc://PATH nor tcp://HOST:PORT")


def is_loopback(address: str) -> bool:
    """Whether a TCP address can be reached from this machine only."""
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a wildcard, an interface or a name: take it for public


def _is_port(text: str) -> bool:
    return text == "*" or (text.isascii() and text.isdigit() and int(text[:6]) <= 65_535)


def _check_path(address: str, path: str, key: str) -> None:
    if path.startswith("@"):
        raise PublishError(f"{key}: {address}: abstract sockets are open to every user; give a path")
    if not path.startswith("/"):
        raise PublishError(f"{key}: {address}: give an absolute path, ipc:///...")
    if len(os.fsencode(path)) > MAX_PATH:
        raise PublishError(f"{key}: {address}: longer than {MAX_PATH} bytes; set a shorter paths.runtime")


class Binding:
    """One bound socket, and the file that belongs to it. ``close`` twice is harmless."""

    def __init__(self, bound: zmq.Socket[bytes], address: str, path: Path | None) -> None:
        self.socket = bound
        self.address = address
        self._path = path
        self._inode = path.stat().st_ino if path else 0

    def close(self, linger_ms: int) -> None:
        """Close the socket; messages that wait for a peer get ``linger_ms`` to leave."""
        self.socket.close(linger=linger_ms)
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                if self._path.stat().st_ino == self._inode:  # not one that somebody else has made since
                    self._path.unlink()
            self._path = None


def bind(unbound: zmq.Socket[bytes], address: str, key: str, server: KeyPair | None) -> Binding:
    """Bind a socket. ``server``: the daemon's keys, for TCP. Raises PublishError, the socket closed."""
    try:
        check_address(address, key, server is not None)
        if address.startswith("ipc://"):
            path = Path(address.removeprefix("ipc://"))
            _bind_ipc(unbound, address, path)
            return Binding(unbound, address, path)
        _prepare_tcp(unbound, address, server)
        unbound.bind(address)
        bound = unbound.getsockopt_string(zmq.LAST_ENDPOINT)  # port 0 or * has become a number
        return Binding(unbound, bound, None)
    except PublishError:
        unbound.close(linger=0)
        raise
    except (zmq.ZMQError, OSError) as error:
        unbound.close(linger=0)
        raise PublishError(f"{key}: cannot bind {address}: {_why(error)}") from error


def _prepare_tcp(unbound: zmq.Socket[bytes], address: str, server: KeyPair | None) -> None:
    unbound.heartbeat_ivl = HEARTBEAT_MS
    unbound.heartbeat_timeout = 3 * HEARTBEAT_MS
    unbound.ipv6 = "[" in address
    if server is not None:
        unbound.curve_server = True
        unbound.curve_secretkey = server.secret
        unbound.zap_domain = DOMAIN.encode()
        unbound.zap_enforce_domain = True


def _bind_ipc(unbound: zmq.Socket[bytes], address: str, path: Path) -> None:
    """libzmq removes whatever is at the path; so look first whether somebody lives there."""
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    with _only_one(path.parent):
        if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
            raise PublishError(f"{path} is in the way and no socket; remove it")
        if _answers(path):
            raise PublishError(
                f"another cosyd is running on {address}; stop it, or set another paths.runtime"
            )
        before = os.umask(SOCKET_UMASK)
        try:
            unbound.bind(address)
        finally:
            os.umask(before)


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two daemons that start together look and bind one after the other."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _answers(path: Path) -> bool:
    """Whether a living process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) not in (errno.ENOENT, errno.ECONNREFUSED)


def _why(error: zmq.ZMQError | OSError) -> str:
    text = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        return f"{text}; another program uses it, choose another port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{text}; run as a user who may, or set another address"
    if error.errno in (errno.EINVAL, errno.ENODEV, errno.EADDRNOTAVAIL):
        return f"{text}; write tcp://HOST:PORT with an address of this machine"
    return text
