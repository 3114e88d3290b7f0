"""What the tests on a GPU share."""

from __future__ import annotations

import pytest

from cosyd.engine.cuda import CudaMemory
from cosyd.errors import GpuError


@pytest.fixture(scope="module")
def memory() -> CudaMemory:
    """Of the first GPU; skips when there is none."""
    try:
        return CudaMemory()
    except GpuError as error:
        pytest.skip(str(error))
