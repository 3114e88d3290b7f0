"""The front ends of one GPU: a bank of slots at the start, more of them as streams come and memory allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cosyd.errors import GpuError
from cosyd.gpu.front_end import GpuFrontEnd
from cosyd.gpu.memory import Watermark
from cosyd.types import GpuUsage

LOOK_EVERY_S = 1.0  # between two looks at the memory: the watermark counts a minute


class Banks:
    """``open_bank`` makes one, or raises GpuError; ``usage`` looks at the device's memory.

    A running stream never waits for memory: a bank has all of its own from when it is opened.
    """

    def __init__(
        self,
        open_bank: Callable[[], GpuFrontEnd],
        most: int,
        usage: Callable[[], GpuUsage],
        watermark: Watermark | None = None,
    ) -> None:
        self._open = open_bank
        self._most = most
        self._usage = usage
        self._watermark = watermark or Watermark()
        self._next_look = float("-inf")
        self.all: list[GpuFrontEnd] = []
        self.refused: dict[str, int] = {}  # streams that went elsewhere, by cause
        self.newest: GpuUsage | None = None

    def grow(self) -> GpuFrontEnd:
        """One more bank. GpuError when there is no memory for it."""
        self.all.append(self._open())
        return self.all[-1]

    def place(self) -> GpuFrontEnd:
        """A bank with a free slot for a new stream. GpuError says why there is none."""
        if self._watermark.reached:
            self.refuse("watermark")
            raise GpuError(f"the GPU's memory has been nearly full for a while ({self._share():.0%})")
        for bank in self.all:
            if bank.free:
                return bank
        if len(self.all) >= self._most:
            self.refuse("slots")
            raise GpuError("all slots of the GPU are in use")
        try:
            return self.grow()
        except GpuError:
            self.refuse("memory")
            raise

    def refuse(self, cause: str) -> None:
        """Count a stream that goes elsewhere: memory, watermark, slots, format, failure."""
        self.refused[cause] = self.refused.get(cause, 0) + 1

    def look(self, now: float) -> GpuUsage | None:
        """The memory, at most once in LOOK_EVERY_S; None between. GpuError when the device does not say."""
        if now < self._next_look:
            return None
        self._next_look = now + LOOK_EVERY_S
        self.newest = replace(self._usage(), moved=dict(self.refused))
        self._watermark.accept(self._share(), now)
        return self.newest

    @property
    def nearly_full(self) -> bool:
        """Whether new streams are sent away for the sake of those that run."""
        return self._watermark.reached

    def _share(self) -> float:
        usage = self.newest
        return usage.device_used / usage.device_total if usage and usage.device_total else 0.0

    def close(self) -> None:
        """Close all banks. Idempotent."""
        for bank in self.all:
            bank.shut()
        self.all.clear()
