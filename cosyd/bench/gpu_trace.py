"""What a step asks of the driver, by CUPTI: every driver call between the first and the last of some hops.

CUPTI, the profilers' own interface, reports each call of the driver by name, from any library of the process.
So it shows whether a hop is one graph launch and whether anything allocates, copies beside it or waits.
"""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ENTER, DRIVER_DOMAIN = 0, 1  # CUPTI_API_ENTER, CUPTI_CB_DOMAIN_DRIVER_API
EXPECTED = {"cuGraphLaunch", "cuEventRecord", "cuEventQuery"}


class _CallbackData(ctypes.Structure):
    """The beginning of CUpti_CallbackData."""

    _fields_ = (("site", ctypes.c_int), ("name", ctypes.c_char_p))


_Callback = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(_CallbackData)
)


def find_cupti() -> ctypes.CDLL | None:
    """From the packages that come with PyTorch, or from the toolkit; None where there is none."""
    places = [Path(p) / "nvidia" for p in sys.path if p] + [Path("/usr/local/cuda")]
    for place in places:
        for path in sorted(place.glob("**/libcupti.so*")) if place.is_dir() else ():
            try:
                return ctypes.CDLL(str(path))
            except OSError:
                continue
    return None


class DriverCalls:
    """Counts the driver calls of a with block by name, without the suffixes of their versions."""

    def __init__(self, cupti: ctypes.CDLL) -> None:
        self.calls: Counter[str] = Counter()
        self._cupti = cupti
        self._subscriber = ctypes.c_void_p()
        self._callback = _Callback(self._called)

    def _called(self, user: int, domain: int, cbid: int, data: Any) -> None:
        if data.contents.site == ENTER:
            self.calls[data.contents.name.decode().split("_")[0]] += 1

    def __enter__(self) -> DriverCalls:
        self._check(self._cupti.cuptiSubscribe(ctypes.byref(self._subscriber), self._callback, None))
        self._check(self._cupti.cuptiEnableDomain(1, self._subscriber, DRIVER_DOMAIN))
        return self

    def __exit__(self, *_: object) -> None:
        self._check(self._cupti.cuptiUnsubscribe(self._subscriber))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"CUPTI error {status}")

    def per(self, count: int) -> dict[str, float]:
        """Calls for each of ``count`` steps."""
        return {name: round(number / count, 3) for name, number in sorted(self.calls.items())}
