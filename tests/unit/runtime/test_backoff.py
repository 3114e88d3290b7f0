"""The first death is made good at once, a crash loop slows down, a healthy life clears the record."""

from cosyd.runtime.backoff import FIRST_S, HEALTHY_S, LONGEST_S, LOOP_DEATHS, Backoff


def test_pauses_double_up_to_the_longest():
    backoff = Backoff()
    pauses = []
    for _ in range(9):
        backoff.started(0.0)
        pauses.append(backoff.died(1.0))
    assert pauses[:4] == [0.0, FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert pauses[-1] == LONGEST_S


def test_a_crash_loop_is_called_one():
    backoff = Backoff()
    backoff.started(0.0)
    seen = []
    for _ in range(LOOP_DEATHS):
        backoff.died(1.0)
        seen.append(backoff.looping)
    assert seen == [False] * (LOOP_DEATHS - 1) + [True]


def test_a_long_life_clears_the_record():
    backoff = Backoff(deaths=7)
    backoff.started(100.0)
    assert backoff.died(100.0 + HEALTHY_S) == 0.0
    assert not backoff.looping
