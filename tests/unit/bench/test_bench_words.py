"""Which edges of a pair of recordings count, and by how much they are off."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.types import Word


def test_edges_count_where_they_were_heard() -> None:
    pytest.importorskip("rapidfuzz", reason="needs the bench extra")
    from cosyd.bench.words import Errors, Pair

    pair = Pair(np.zeros(1, np.float32), ("a", "flat", "white", "and", "tea"), 3, (0.2, 1.0, 1.5, 2.0))
    errors = Errors()
    errors.add(
        pair,
        [
            Word("A", 0.25, 0.3), Word("flat", 0.3, 0.6), Word("wide,", 0.6, 1.1),
            Word("well", 1.2, 1.3), Word("and", 1.4, 1.6), Word("tea.", 1.7, 1.98),
        ],
    )  # fmt: skip
    assert errors.edges == 4
    assert errors.start == pytest.approx([50, -100])
    assert errors.end == pytest.approx([-20])  # "white" was not heard
    errors.add(pair, [])
    assert (errors.edges, len(errors.start), len(errors.end)) == (8, 2, 1)
