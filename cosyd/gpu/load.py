"""How busy the GPU is, from the driver's management library; no package is needed for that."""

from __future__ import annotations

import ctypes

_LIBRARY = "libnvidia-ml.so.1"


class _Utilisation(ctypes.Structure):
    """nvmlUtilization_t: percent of the last sample period (a sixth of a second to a second)."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class GpuLoad:
    """Asks for load and memory of one GPU, from any thread. Where there is no answer (Jetson), it is None."""

    def __init__(self, index: int = 0) -> None:
        self._library: ctypes.CDLL | None = None
        self._device = ctypes.c_void_p()
        try:
            library = ctypes.CDLL(_LIBRARY)
        except OSError:
            return
        if library.nvmlInit_v2() == 0:
            if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self._device)) == 0:
                self._library = library
            else:
                library.nvmlShutdown()

    def read(self) -> float | None:
        """Share of time, 0 to 1, in which a kernel ran."""
        found = _Utilisation()
        if self._library is None:
            return None
        if self._library.nvmlDeviceGetUtilizationRates(self._device, ctypes.byref(found)) != 0:
            return None
        return float(found.gpu) / 100

    def memory(self) -> tuple[int, int] | None:
        """Bytes in use by all programs, and there."""
        found = _Memory()
        if self._library is None:
            return None
        if self._library.nvmlDeviceGetMemoryInfo(self._device, ctypes.byref(found)) != 0:
            return None
        return int(found.used), int(found.total)

    def close(self) -> None:
        """Idempotent."""
        if self._library is not None:
            self._library.nvmlShutdown()
            self._library = None
