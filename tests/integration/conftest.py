"""Fixtures of several integration tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from publishing import Daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    made.start()
    yield made
    made.wait()
