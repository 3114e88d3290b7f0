"""The clock of a device against the machine's (field case 9)."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.capture.drift import MIN_STAMPS, WINDOW, DriftEstimator

RATE_HZ = 48_000
TEN_HOURS_S = 36_000


def stamps(ppm: float, seconds: int, jitter_s: float = 0.0, seed: int = 1):
    """One a second: what a device that runs ``ppm`` fast has delivered, and when the last frame came."""
    rng = np.random.default_rng(seed)
    for second in range(1, seconds + 1):
        index = int(second * RATE_HZ * (1 + ppm * 1e-6)) // 480 * 480
        true_s = index / (RATE_HZ * (1 + ppm * 1e-6))
        yield index, round((true_s + rng.uniform(0, jitter_s)) * 1e9), true_s


@pytest.mark.parametrize("ppm", [100.0, -100.0, 0.0, 20.0])
def test_ten_hours_of_a_drifting_device(ppm):
    drift = DriftEstimator(RATE_HZ)
    worst_s = 0.0
    for n, (index, t_ns, true_s) in enumerate(stamps(ppm, TEN_HOURS_S, jitter_s=0.003)):
        drift.add(index, t_ns)
        if n % 600 == 599:
            assert drift.ppm == pytest.approx(ppm, abs=5)
            predicted = drift.time_ns(index + RATE_HZ)  # one second ahead of what was seen
            worst_s = max(worst_s, abs(predicted * 1e-9 - (true_s + 1 / (1 + ppm * 1e-6))))
    assert worst_s < 0.020


def test_claims_nothing_before_it_can_know():
    drift = DriftEstimator(RATE_HZ)
    for n, (index, t_ns, _) in enumerate(stamps(100, 200, jitter_s=0.02)):
        drift.add(index, t_ns)
        if n + 1 < MIN_STAMPS:
            assert drift.ppm is None and drift.time_ns(index) is None
        if (claim := drift.ppm) is not None:
            assert claim == pytest.approx(100, abs=10)  # 4 standard errors
    for index, t_ns, _ in stamps(100, 40, jitter_s=0.2, seed=2):
        noisy = DriftEstimator(RATE_HZ)
        noisy.add(index, t_ns)
        assert noisy.ppm is None


def test_reset_forgets_and_standing_still_is_no_stamp():
    drift = DriftEstimator(RATE_HZ)
    for index, t_ns, _ in stamps(50, MIN_STAMPS):
        drift.add(index, t_ns)
        drift.add(index, t_ns + 500_000_000)  # nothing new came: says nothing of the clock
    assert drift.ppm == pytest.approx(50, abs=1)
    drift.reset(16_000)
    assert drift.ppm is None


def test_old_stamps_leave_the_window():
    drift = DriftEstimator(RATE_HZ, window=WINDOW)
    offset_index, offset_ns = 0, 0
    for ppm in (-80, 60):
        for index, t_ns, _ in stamps(ppm, WINDOW + 1):
            drift.add(offset_index + index, offset_ns + t_ns)
        offset_index, offset_ns = offset_index + index, offset_ns + t_ns
    assert drift.ppm == pytest.approx(60, abs=1)
