"""The publisher's counter, which never gives a number twice, whatever ends the process.

The file holds the highest number that may have been given: it is written in steps of ``RESERVE``, ahead of
use. A start goes on after it; so a kill costs a jump, a clean end does not. The file is also the lock of
the state folder: one daemon at a time.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path

from cosyd.errors import PublishError

RESERVE = 10_000  # numbers: half an hour of level messages between writes; JSON's 2**53 is far
WIDTH = 20  # digits; a fixed length lets the number be overwritten in place by one small write

log = logging.getLogger(__name__)


class Counter:
    """``Counter.open(path, at_least)`` gives a counter whose next number is above ``at_least``."""

    def __init__(self, file: int | None, last: int) -> None:
        self._file = file
        self._last = last
        self._reserved = last

    @classmethod
    def open(cls, path: Path) -> Counter:
        """Read and lock the file. Raises PublishError when another process holds it.

        Where the file cannot be had at all (read-only or full disk), counting goes on without it: results
        matter more. Readers then tell a start apart by ``boot``.
        """
        try:
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            log.warning("cannot open %s: %s; sequence numbers start again at 1", path, error.strerror)
            return cls(None, 0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise PublishError(
                f"{path.parent} is in use by another cosyd; stop that one, or set another paths.state"
            ) from error
        return cls(file, _read(file, path))

    @property
    def last(self) -> int:
        """The number given last."""
        return self._last

    def at_least(self, last: int) -> None:
        """Go on after ``last`` if that is further."""
        self._last = max(self._last, last)

    def next(self) -> int:
        self._last += 1
        if self._last > self._reserved:
            self._write(self._last + RESERVE)
            self._reserved = self._last + RESERVE
        return self._last

    def close(self) -> None:
        """Give back what was reserved and not used, and the lock."""
        if self._file is None:
            return
        if self._reserved > self._last:
            self._write(self._last)
        os.close(self._file)
        self._file = None

    def _write(self, reserved: int) -> None:
        if self._file is None:
            return
        try:
            os.pwrite(self._file, b"%0*d" % (WIDTH, reserved), 0)
        except OSError as error:
            log.warning("cannot reserve sequence numbers: %s; a kill now may repeat some", error.strerror)


def _read(file: int, path: Path) -> int:
    text = os.pread(file, WIDTH + 1, 0)
    if text == b"" or (text.isdigit() and len(text) == WIDTH):
        return int(text or b"0")
    log.warning("%s is damaged; sequence numbers go on after the journal's", path)
    return 0
