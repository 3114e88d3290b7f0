"""Paths for rings in shared memory; a test that leaves one there fails."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def ring_path() -> Iterator[Path]:
    name = f"cosyd-test-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    folder = Path("/dev/shm")
    yield folder / name
    left = list(folder.glob(f"{name}*"))
    for path in left:
        path.unlink()
    assert not left
