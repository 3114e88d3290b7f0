"""Talking to systemd: readiness, status, watchdog (sd_notify(3)). The only importer of ``systemd``.

Without ``NOTIFY_SOCKET`` in the environment nobody listens and every call does nothing. With it, the
``systemd`` extra must be installed: a service that never says READY would be killed for a reason that
nobody could guess.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from cosyd.errors import CosydError

# sd_notify's advice is to ping at half the interval; a bit more often, so that one late timer does no harm.
PING_SHARE = 0.4
EXTEND_S = 30  # how much start-up time one EXTEND_TIMEOUT asks for; asked again while starting


class Notifier:
    """Messages to the service manager. ``send`` is what delivers a line (injectable for tests)."""

    def __init__(self, send: Callable[[str], None] | None = None) -> None:
        self._send = send or _open_channel()
        self._status = ""

    @property
    def watchdog_s(self) -> float | None:
        """The watchdog's interval in seconds, None where systemd runs none for this process."""
        microseconds = os.environ.get("WATCHDOG_USEC", "")
        pid = os.environ.get("WATCHDOG_PID", "")
        if not microseconds.isdigit() or (pid and pid != str(os.getpid())):
            return None
        return int(microseconds) / 1e6

    def ready(self, status: str) -> None:
        self._status = status
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, text: str) -> None:
        """What `systemctl status` shows; repeated texts are not sent again."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={text}")

    def ping(self) -> None:
        self._send("WATCHDOG=1")

    def extend_start(self) -> None:
        self._send(f"EXTEND_TIMEOUT_USEC={EXTEND_S * 1_000_000}")

    def reloading(self, monotonic_us: int) -> None:
        self._send(f"RELOADING=1\nMONOTONIC_USEC={monotonic_us}")

    def reloaded(self) -> None:
        self._send("READY=1")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")


def _open_channel() -> Callable[[str], None]:
    if "NOTIFY_SOCKET" not in os.environ:
        return _nobody_listens
    try:
        import systemd.daemon as daemon
    except ImportError as error:
        raise CosydError(
            "started by systemd, but systemd-python is not installed: pip install 'cosyd[systemd]'"
        ) from error

    def send(line: str) -> None:
        daemon.notify(line)

    return send


def _nobody_listens(line: str) -> None:
    """Not started by a service manager."""
