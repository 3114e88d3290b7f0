"""How fast a device's clock runs against the machine's monotonic clock."""

from __future__ import annotations

from collections import deque

import numpy as np

WINDOW = 600  # stamps: ten minutes at one a second. 1 ms of jitter then costs 0.2 ppm
MIN_STAMPS = 20
MAX_ERROR_PPM = 2.5  # standard error above which nothing is claimed: 95 % of claims are within 5 ppm


class DriftEstimator:
    """Linear regression of capture time on frame index over a sliding window. Pure: it reads no clock.

    Give it stamps (the index after a frame, CLOCK_MONOTONIC ns at which that frame was captured), about one
    a second. ``reset`` it when the device is reopened: a gap is as long as the nominal rate says.
    """

    def __init__(self, rate_hz: int, window: int = WINDOW) -> None:
        self._rate_hz = rate_hz
        self._stamps: deque[tuple[int, int]] = deque(maxlen=window)

    def reset(self, rate_hz: int | None = None) -> None:
        self._rate_hz = rate_hz or self._rate_hz
        self._stamps.clear()

    def add(self, index: int, t_ns: int) -> None:
        """Stamps that do not advance (nothing new was captured) are ignored."""
        if not self._stamps or index > self._stamps[-1][0]:
            self._stamps.append((index, t_ns))

    @property
    def ppm(self) -> float | None:
        """+100: the device delivers 100 frames a million more than its rate says. None: not yet known."""
        fit = self._fit()
        if fit is None:
            return None
        slope, _, error = fit
        if error * 1e6 > MAX_ERROR_PPM:
            return None
        return (1.0 / slope - 1.0) * 1e6

    def time_ns(self, index: int) -> int | None:
        """When the frame before ``index`` was captured, by the regression; None: not yet known."""
        fit = self._fit()
        if fit is None:
            return None
        slope, intercept_s, _ = fit
        base_index, base_ns = self._stamps[0]
        return base_ns + round((slope * (index - base_index) / self._rate_hz + intercept_s) * 1e9)

    def _fit(self) -> tuple[float, float, float] | None:
        """Slope (seconds of the machine per second of the device), intercept (s), standard error of slope.

        Counted from the oldest stamp, so that float64 keeps nanoseconds for years.
        """
        if len(self._stamps) < MIN_STAMPS:
            return None
        base = np.array(self._stamps[0], dtype=np.int64)
        offsets = np.array(self._stamps, dtype=np.int64) - base
        x = offsets[:, 0] / self._rate_hz
        y = offsets[:, 1] * 1e-9
        dx = x - x.mean()
        spread = float(dx @ dx)
        slope = float(dx @ y) / spread
        residual = y - y.mean() - slope * dx
        error = float(np.sqrt((residual @ residual) / (len(x) - 2) / spread))
        return slope, float(y.mean() - slope * x.mean()), error
