"""When a batch of streams is run, and who is in it."""

from __future__ import annotations

import pytest

from cosyd.asr.streaming.former import BatchFormer


def test_a_full_batch_runs_at_once_and_another_one_at_the_deadline() -> None:
    former = BatchFormer(most=2, deadline_s=0.005)
    assert former.delay(0.0, 3) is None
    former.update([7], 1.0)
    assert former.delay(1.0, 3) == pytest.approx(0.005)
    assert former.delay(1.004, 3) == pytest.approx(0.001)
    assert former.delay(1.006, 3) == 0.0
    former.update([7, 3], 1.002)
    assert former.delay(1.002, 3) == 0.0
    assert former.take() == [3, 7]
    assert former.delay(1.002, 3) is None


def test_nobody_is_waited_for_when_all_are_ready() -> None:
    former = BatchFormer(most=64)
    former.update([4], 1.0)
    assert former.delay(1.0, 1) == 0.0


def test_who_waits_longest_comes_first_but_ends_before_all() -> None:
    former = BatchFormer(most=2)
    former.update([1], 1.0)
    former.update([1, 2], 2.0)
    former.update([1, 2, 3], 3.0)
    assert former.take(urgent={3}) == [1, 3]
    former.update([1, 2], 4.0)  # 1 has audio again
    assert former.take() == [1, 2]
