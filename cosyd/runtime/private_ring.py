"""Rings of processes that are no daemon: named after the process, so that who is dead can be cleared away."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from pathlib import Path

from cosyd.config.paths import SHARED_MEMORY
from cosyd.errors import RingError
from cosyd.ring import remove_ring

_numbers = itertools.count()


def private_ring(purpose: str) -> Path:
    """A path that nobody else uses. What killed processes of that purpose have left is removed."""
    for path in SHARED_MEMORY.glob(f"cosyd-{purpose}-*.ring"):
        pid = path.stem.split("-")[-2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            with suppress(RingError):  # another user's is not ours to remove
                remove_ring(path)
    return SHARED_MEMORY / f"cosyd-{purpose}-{os.getpid()}-{next(_numbers)}.ring"
