"""The benchmark of the ring measures what it says."""

from __future__ import annotations

from cosyd.bench.ring import wakes_us


def test_no_block_arrives_before_it_was_written() -> None:
    delays = wakes_us(40)
    assert len(delays) == 40
    assert (delays > 0).all()
