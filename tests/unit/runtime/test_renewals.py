"""A recogniser's process is replaced so that the GPU can be used again, and not too often."""

from __future__ import annotations

from cosyd.runtime.renewals import LONGEST_PAUSE_S, SOUND_S, Renewals


def test_the_first_is_at_once_and_the_next_wait_longer_and_longer() -> None:
    renewals, now, waits = Renewals(), 1_000.0, []
    for _ in range(12):
        wait = renewals.due_in(now)
        waits.append(wait)
        now += wait
        renewals.done(now)
    assert waits[0] == 0
    assert waits == sorted(waits)
    assert waits[1] == 30
    assert waits[-1] <= LONGEST_PAUSE_S


def test_a_gpu_that_worked_for_long_begins_anew() -> None:
    renewals = Renewals()
    renewals.done(0.0)
    renewals.done(100.0)
    assert renewals.due_in(101.0) > 0
    assert renewals.due_in(100.0 + SOUND_S) == 0
