"""A daemon's folders in a temporary place, and the sockets' leaks made errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosyd.config.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(
        models=tmp_path / "models",
        state=tmp_path / "state",
        cache=tmp_path / "cache",
        runtime=tmp_path / "run",
        keys=tmp_path / "keys",
    )


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Each test gives back every descriptor (libzmq's sockets and threads have some) and every thread."""
    before = _descriptors()
    threads = set(threading.enumerate())
    yield
    assert _descriptors() <= before, "descriptors leak"
    left = [thread for thread in threading.enumerate() if thread not in threads and not thread.daemon]
    assert not left


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
