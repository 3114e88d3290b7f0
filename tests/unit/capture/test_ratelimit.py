"""At most one line in a while, and nothing left out of the sum."""

from __future__ import annotations

import itertools

from cosyd.capture.ratelimit import RateLimiter


def test_one_thousand_overruns_make_few_lines_and_the_right_sum():
    now = 0.0
    limiter = RateLimiter(10.0, now=lambda: now)
    said = []
    for step in range(1_000):
        now = step * 0.05  # 50 s of overruns
        if due := limiter.add():
            said.append((now, due))
    assert len(said) == 5
    assert said[0] == (0.0, 1)
    assert all(b - a >= 10.0 for (a, _), (b, _) in itertools.pairwise(said))
    now += 10
    assert sum(due for _, due in said) + limiter.add(0) == 1_000


def test_nothing_to_say():
    limiter = RateLimiter(10.0, now=lambda: 0.0)
    assert limiter.add(0) == 0
    assert limiter.add(3) == 3
    assert limiter.add(2) == 0
