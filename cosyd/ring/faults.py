"""Errors of the C core, translated to the error tree: the only place that knows its status numbers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from cosyd.errors import RingBusy, RingError, RingFormatError, RingNotFound
from cosyd.ring import _ring

CORE_ERRORS = (_ring.Fault, ValueError, TypeError, BufferError, OverflowError)

_REMEDIES = {
    errno.ENOSPC: "free some of it, or set a smaller buffer_s (in a container: a larger --shm-size)",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f), or set a smaller buffer_s",
    errno.EACCES: "run as the user that the daemon runs as",
    errno.EPERM: "run as the user that the daemon runs as",
    errno.ENOENT: "create the directory first",
    errno.EOPNOTSUPP: "put it on a tmpfs such as /dev/shm",
    errno.EISDIR: "put it on a tmpfs such as /dev/shm",  # kernels say so when O_TMPFILE is unknown
}


def _system(path: Path, code: int) -> RingError:
    remedy = _REMEDIES.get(code)
    return RingError(f"ring {path}: {os.strerror(code)}" + (f"; {remedy}" if remedy else ""))


def _fault(path: Path, status: int, code: int) -> RingError:
    if status == _ring.SYSTEM:
        return _system(path, code)
    if status == _ring.NOT_FOUND:
        return RingNotFound(f"ring {path}: there is none; is the capture of this source running?")
    if status == _ring.BUSY:
        return RingBusy(f"ring {path}: another running process writes it; stop that one first")
    if status == _ring.NOT_A_RING:
        return RingFormatError(f"ring {path}: the file is not a ring; remove it or choose another path")
    if status == _ring.OTHER_VERSION:
        return RingFormatError(f"ring {path}: made by another version of cosyd; restart the daemon")
    if status == _ring.NO_SLOT:
        return RingError(f"ring {path}: {_ring.MAX_READERS} readers are attached already; close one")
    if status == _ring.BAD_SPEC:
        return RingError(
            f"ring {path}: rate, channels or size are out of bounds; check the source's settings"
        )
    return RingError(f"ring {path}: two threads write at once; a writer belongs to one thread or one stream")


def translate(path: Path, error: Exception) -> RingError:
    """``error``, one of CORE_ERRORS, as the error that a user of the ring sees."""
    if isinstance(error, _ring.Fault):
        return _fault(path, *error.args)
    if str(error) == "closed":
        return RingError(f"ring {path}: used after it was closed here; open or attach it again")
    return RingError(f"ring {path}: {error}")
