"""The process that owns one device: runs a ``Capture`` and passes its events to the daemon."""

from __future__ import annotations

import logging
import os
import sys
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from cosyd.capture import Capture
from cosyd.capture.bounded import DriverHangs
from cosyd.config.schema import SourceConfig
from cosyd.errors import CosydError, RingError
from cosyd.ring import remove_ring
from cosyd.runtime.ipc import Alive, Failed, Open, Ready
from cosyd.runtime.logs import set_up_logs
from cosyd.runtime.worker import Inbox
from cosyd.types import CaptureEvent

log = logging.getLogger("cosyd.runtime")

STDIN = 0
ALIVE_S = 0.5  # pause between signs of life where there is no progress to report


def standard_input(source: SourceConfig) -> Any:
    """The daemon's standard input for a source that reads it (a spawned process gets none), else None."""
    return DupFd(STDIN) if source.type == "pipe" and source.path == "-" else None


def main(
    connection: Connection,
    source: SourceConfig,
    ring_path: Path,
    log_level: str,
    wait: bool,
    fresh: bool,
    stdin: Any,
) -> None:
    """Entry of the process. Ends when the daemon says so, or goes away, or the source cannot be used.

    The ring goes with it, unless it is killed or the driver hangs: then its successor goes on with the ring.

    ``wait``: open the device only when the daemon says ``Open``. Until then everything is loaded, so that
    start-up does not take longer than the models do. ``fresh``: a ring at the path is none of this daemon's.
    """
    set_up_logs(log_level)
    if stdin is not None:
        os.dup2(stdin.detach(), STDIN)
        sys.stdin = os.fdopen(STDIN, closefd=False)
    inbox = Inbox(connection)
    inbox.start()
    try:
        _tell(connection, Ready())
        if not wait or _told_to_open(connection, inbox):
            _capture(connection, source, ring_path, fresh, inbox)
    except DriverHangs as error:
        log.error("%s", error)
        os._exit(
            error.exit_code
        )  # waiting for the driver's threads would never end; the successor adopts the ring
    except RingError as error:  # no room, or a predecessor that is still ending: worth another try
        log.error("%s", error)
        sys.exit(error.exit_code)
    except CosydError as error:
        _tell(connection, Failed(str(error), error.exit_code))
    remove_ring(ring_path)


def _told_to_open(connection: Connection, inbox: Inbox) -> bool:
    """Wait for ``Open``; False when it is to end instead."""
    while not inbox.stopping.is_set():
        if isinstance(inbox.next(ALIVE_S), Open):
            return True
        _tell(connection, Alive())
    return False


def _capture(
    connection: Connection, source: SourceConfig, ring_path: Path, fresh: bool, inbox: Inbox
) -> None:
    def report(event: CaptureEvent) -> None:
        _tell(connection, event)

    Capture(source, ring_path, fresh=fresh).run(inbox.stopping, report)
    while not inbox.stopping.wait(ALIVE_S):  # it has ended; a recogniser may yet have to read it (again)
        _tell(connection, Alive())


def _tell(connection: Connection, message: object) -> None:
    try:
        connection.send(message)
    except OSError:  # the daemon is gone; the inbox sees that too and ends us
        return
