"""CURVE keys: who may connect over TCP, and with whom one talks.

The folder of keys (``paths.keys``, mode 0700)::

    server.key          the daemon's public key; clients need it
    server.key_secret   the daemon's own, 0600
    clients/NAME.key    public keys of the clients that are admitted
    NAME.key_secret     a client's own, to be moved to the client's machine, 0600
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq
import zmq.auth
from zmq.auth.asyncio import AsyncioAuthenticator

from cosyd.errors import PublishError

SERVER = "server"
DOMAIN = "cosyd"  # ZAP domain; naming one makes libzmq refuse everybody when nobody answers for it
MAX_CLIENTS = 1_000  # key files that are looked at when a client connects

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyPair:
    """Z85 text, 40 bytes each; ``repr`` does not show the secret."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"KeyPair({self.public.decode()}, secret hidden)"


@dataclass(frozen=True)
class ClientKeys:
    """What a client needs: the daemon's public key, and its own pair."""

    server: bytes
    own: KeyPair

    @classmethod
    def load(cls, server_key: Path, secret_key: Path) -> ClientKeys:
        """``server_key``: the daemon's ``server.key``; ``secret_key``: the client's ``NAME.key_secret``."""
        return cls(load_public(server_key), load_pair(secret_key))

    def apply(self, socket: zmq.Socket[Any]) -> None:
        socket.curve_serverkey = self.server
        socket.curve_publickey = self.own.public
        socket.curve_secretkey = self.own.secret


def create_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a pair for the daemon (``server``) or for a client, which is thereby admitted.

    Returns the files of the public and the secret key, which belong to the owner of ``folder`` where root
    makes them for a service. Raises PublishError when there is one already, the
    name is no plain word, or the folder cannot be written.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise PublishError(f"key name {name!r}: use letters, digits, - _ and . only")
    public = folder / f"{name}.key" if name == SERVER else folder / "clients" / f"{name}.key"
    secret = folder / f"{name}.key_secret"
    for path in (public, secret):
        if path.exists():
            raise PublishError(f"{path} exists already; remove it first if it is to be replaced")
    public_text, secret_text = zmq.curve_keypair()
    certificate = f'curve\n    public-key = "{public_text.decode()}"\n'
    try:
        public.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(secret, 0o600, f'{certificate}    secret-key = "{secret_text.decode()}"\n')
        _write_new(public, 0o644, certificate)
        if os.geteuid() == 0:
            owner = folder.stat()
            for path in (secret, public, public.parent):
                os.chown(path, owner.st_uid, owner.st_gid)
    except OSError as error:
        raise PublishError(f"cannot write keys to {folder}: {error.strerror}; run as its owner") from error
    return public, secret


def load_public(path: Path) -> bytes:
    """The public key of a certificate file."""
    return _load(path)[0]


def load_pair(path: Path) -> KeyPair:
    """Both keys of a ``.key_secret`` file, which nobody but its owner may read."""
    public, secret = _load(path)
    if secret is None:
        raise PublishError(f"{path} holds no secret key; give the file that ends in .key_secret")
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise PublishError(f"{path} can be read by others (mode {mode:04o}); chmod 600 {path}")
    return KeyPair(public, secret)


def server_keys(folder: Path) -> KeyPair:
    """The daemon's own keys."""
    path = folder / f"{SERVER}.key_secret"
    if not path.exists():
        raise PublishError(f"publish.curve is on, but there is no {path}; make one with `cosyd keys server`")
    return load_pair(path)


class Admission:
    """Admits the clients whose public key is in ``clients/``, which is read anew at each connection."""

    def __init__(self, clients: Path) -> None:
        self._clients = clients

    def callback(self, domain: str, key: bytes) -> bool:
        """Called by the authenticator with the Z85 text of a client's key."""
        admitted = key in self._keys()
        if not admitted:
            log.warning("refused a client with the unknown key %s", key.decode("ascii", "replace"))
        return admitted

    def _keys(self) -> set[bytes]:
        keys: set[bytes] = set()
        for path in sorted(self._clients.glob("*.key"))[:MAX_CLIENTS]:
            try:
                keys.add(load_public(path))
            except PublishError as error:
                log.warning("%s; that client is not admitted", error)
        return keys


@contextlib.contextmanager
def authenticator(context: zmq.Context[zmq.Socket[bytes]], folder: Path) -> Iterator[None]:
    """Answers libzmq's questions about clients while it is open. Needs the running event loop."""
    answers = AsyncioAuthenticator(context)
    answers.configure_curve_callback(DOMAIN, Admission(folder / "clients"))
    answers.start()
    try:
        yield
    finally:
        answers.stop()


def _load(path: Path) -> tuple[bytes, bytes | None]:
    try:
        public, secret = zmq.auth.load_certificate(path)
    except OSError as error:
        raise PublishError(f"cannot read the key {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise PublishError(f"{path} holds no CURVE key; make one with `cosyd keys NAME`") from error
    for key in (public, secret):
        if key is not None and not _is_key(key):
            raise PublishError(f"{path} is damaged: a key has 40 characters of Z85; make a new one")
    return public, secret


def _is_key(text: bytes) -> bool:
    try:
        return len(text) == 40 and zmq.utils.z85.decode(text) is not None
    except (KeyError, ValueError):
        return False


def _write_new(path: Path, mode: int, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
