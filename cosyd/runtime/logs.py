"""The log of all processes: one line an event on standard error.

Under systemd each line carries its priority (``<4>``), so that `journalctl -p warning` works, and no time,
which the journal adds.
"""

from __future__ import annotations

import logging
import os
import sys

SYSLOG_PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}


class JournalFormatter(logging.Formatter):
    """``<priority>name: message``."""

    def format(self, record: logging.LogRecord) -> str:
        priority = SYSLOG_PRIORITY.get(record.levelno, 3)
        return f"<{priority}>{super().format(record)}".replace("\n", f"\n<{priority}>")


def set_up_logs(level: str) -> None:
    """Log at ``level`` (debug, info, warning, error) and above. Call once a process; again to change."""
    root = logging.getLogger("cosyd")
    root.setLevel(level.upper())
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter())
    root.addHandler(handler)
    root.propagate = False


def _formatter() -> logging.Formatter:
    if "JOURNAL_STREAM" in os.environ:
        return JournalFormatter("%(name)s: %(message)s")
    return logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
