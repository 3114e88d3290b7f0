"""Device memory: stream-ordered allocation, a reserve for when it fails, and what is in use.

Every request goes to the driver's stream-ordered allocator first. When that has nothing left, the reserve
serves, one piece that was taken when everything was well; when that is full too, the request fails (GpuError)
and the caller decides who goes without. Nothing here is called while a hop runs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from cosyd.errors import GpuError
from cosyd.types import GpuUsage

log = logging.getLogger("cosyd.gpu")

ALIGN = 256  # bytes; what the driver's own allocations are aligned to
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY

WATERMARK = 0.85  # share of the device's memory in use, whoever uses it ...
WATERMARK_S = 60.0  # ... for so long: new streams go elsewhere


class RawMemory(Protocol):
    """The driver's side; a status of 0 is success. Everything is ordered on one stream."""

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """Status and address."""
        ...

    def free(self, address: int) -> int:
        """Status."""
        ...

    def pool(self) -> tuple[int, int, int]:
        """Bytes of the driver's pool: in use, held from the device, the most ever in use."""
        ...

    def device(self) -> tuple[int, int]:
        """Bytes of the whole device: in use by anybody, there."""
        ...


@dataclass(frozen=True)
class Allocation:
    """A piece of device memory. ``reserved``: it lies in the reserve."""

    address: int
    nbytes: int
    reserved: bool


class Arena:
    """First fit over one range of addresses; free neighbours are one piece. Pure arithmetic."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.nbytes = nbytes
        self._free = [(address, nbytes)]  # sorted by address, no two touch
        self._taken: dict[int, int] = {}

    @property
    def used(self) -> int:
        return sum(self._taken.values())

    def take(self, nbytes: int) -> int | None:
        """The address of a piece, aligned like the range; None when no free piece is large enough."""
        need = -(-max(1, nbytes) // ALIGN) * ALIGN
        for index, (address, size) in enumerate(self._free):
            if size >= need:
                rest = [(address + need, size - need)] if size > need else []
                self._free[index : index + 1] = rest
                self._taken[address] = need
                return address
        return None

    def give(self, address: int) -> None:
        """Take a piece back. KeyError for an address that was not handed out."""
        pieces = sorted([*self._free, (address, self._taken.pop(address))])
        merged = pieces[:1]
        for start, size in pieces[1:]:
            before, length = merged[-1]
            if before + length == start:
                merged[-1] = (before, length + size)
            else:
                merged.append((start, size))
        self._free = merged


class DeviceMemory:
    """All device memory of one process's GPU. For one thread."""

    def __init__(self, raw: RawMemory, device: str) -> None:
        self._raw = raw
        self._device = device
        self._reserve: tuple[int, Arena] | None = None
        self._used = 0
        self._peak = 0
        self.fallbacks = 0  # requests that the reserve served

    def allocate(self, nbytes: int) -> Allocation:
        """Memory that is not cleared. GpuError, with what is free, when there is none."""
        status, address = self._raw.allocate(nbytes)
        if status == 0:
            return self._taken(Allocation(address, nbytes, False))
        if status != OUT_OF_MEMORY:
            raise GpuError(f"{self._device}: allocating {nbytes:,} bytes failed: CUDA error {status}")
        if self._reserve is not None and (piece := self._reserve[1].take(nbytes)) is not None:
            self.fallbacks += 1
            log.warning("%s is out of memory: %s bytes come from the reserve", self._device, f"{nbytes:,}")
            return self._taken(Allocation(piece, nbytes, True))
        used, total = self._raw.device()
        raise GpuError(
            f"{self._device}: no {nbytes:,} bytes of memory left ({total - used:,} of {total:,} free, "
            "the reserve is full); end other programs that use the GPU"
        )

    def _taken(self, allocation: Allocation) -> Allocation:
        self._used += allocation.nbytes
        self._peak = max(self._peak, self._used)
        return allocation

    def free(self, allocation: Allocation) -> None:
        """Once; what still runs on the device must not use it. Never fails: a dead device has freed all."""
        self._used -= allocation.nbytes
        if allocation.reserved and self._reserve is not None:
            self._reserve[1].give(allocation.address)
        elif not allocation.reserved and (status := self._raw.free(allocation.address)):
            log.debug("%s: freeing failed: CUDA error %d", self._device, status)

    def reserve(self, nbytes: int) -> bool:
        """Put a reserve aside, once; False when the device has not so much."""
        if self._reserve is not None:
            raise ValueError("there is a reserve already")
        size = -(-nbytes // ALIGN) * ALIGN
        status, address = self._raw.allocate(size)
        if status:
            log.warning("%s: no %s bytes left to keep in reserve", self._device, f"{size:,}")
            return False
        self._reserve = address, Arena(address, size)
        return True

    def close(self) -> None:
        """Give the reserve back. Idempotent; what was taken from it must be free."""
        if self._reserve is not None:
            self._raw.free(self._reserve[0])
            self._reserve = None

    @property
    def used(self) -> int:
        """Bytes that are handed out now."""
        return self._used

    def usage(self) -> GpuUsage:
        """A snapshot. Asks the driver: some microseconds, and never while a hop is timed."""
        _, held, most = self._raw.pool()
        device_used, device_total = self._raw.device()
        arena = self._reserve[1] if self._reserve else None
        return GpuUsage(
            used=self._used,
            reserved=max(held, self._used),
            peak=max(self._peak, most),
            spare=arena.nbytes if arena else 0,
            spare_used=arena.used if arena else 0,
            device_used=device_used,
            device_total=device_total,
            fallbacks=self.fallbacks,
        )


class Watermark:
    """Tells when memory has been nearly full for a while, by times that the caller gives (seconds)."""

    def __init__(self, limit: float = WATERMARK, after_s: float = WATERMARK_S) -> None:
        self._limit = limit
        self._after_s = after_s
        self._above_since: float | None = None
        self.reached = False

    def accept(self, share: float, now: float) -> bool:
        """The share of the memory in use at ``now``; whether ``reached`` has changed."""
        before = self.reached
        if share < self._limit:
            self._above_since, self.reached = None, False
        else:
            if self._above_since is None:
                self._above_since = now
            self.reached = now - self._above_since >= self._after_s
        return self.reached != before
