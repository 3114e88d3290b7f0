"""One front end over two: streams run on the GPU where it takes them, else on the CPU, and each says why.

A new stream goes to the CPU when the GPU has no memory or no slot left, when its memory has been nearly full
for a while, or when the kernels do not take the stream's format. When the GPU fails, its streams go on on the
CPU: what was not given yet is computed again there, from frames that are kept for that. A CUDA error such as
an illegal address ends the process's whole context, so the way back to the GPU is another process: when the
device answers in a child (``cosyd.engine.trial``), it is asked for. Nothing is lost then, because the frames
since the last settled sample are in the rings.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from cosyd.config.schema import ArrayConfig
from cosyd.errors import CosydError, GpuError, UnsupportedFormat
from cosyd.frontend.contract import FrontBatch, SlotStatistics, StreamFrontEnd
from cosyd.frontend.pcm import Frames
from cosyd.gpu.routes import Numbers, Reviving, Route, Told, together
from cosyd.spec import AudioSpec
from cosyd.types import Backend, Health

if TYPE_CHECKING:
    from cosyd.gpu.banks import Banks

log = logging.getLogger("cosyd.gpu")

MOST_AGAIN = 256  # blocks that the CPU computes again for all streams that move: a quarter of a second
LEAST_AGAIN = 4  # of one stream
ARRAYS_ELSEWHERE = "microphone arrays run on the CPU"


class RoutedFrontEnd:
    """See the module. ``reason``: why there is no GPU where ``banks`` is None.

    ``slots``: of both front ends together; ``cpu`` has as many.
    """

    def __init__(
        self,
        cpu: StreamFrontEnd,
        slots: int,
        told: Told,
        banks: Banks | None = None,
        reason: str = "",
        clock: Callable[[], float] = time.monotonic,
        revival: Reviving | None = None,
    ) -> None:
        self._revival = revival
        self._cpu = cpu
        self._slots = slots
        self._told = told
        self._banks = banks
        self._reason = reason
        self._clock = clock
        self._routes: dict[int, Route] = {}
        self._numbers: dict[int, Numbers] = {}  # by the front end's id
        self._ready: deque[FrontBatch] = deque()  # while streams move; bounded by what they have waiting

    # --- what it runs on -------------------------------------------------------------------------------

    @property
    def delay(self) -> int:
        return self._cpu.delay

    @property
    def backends(self) -> dict[str, Backend]:
        """Of new streams; with how many of the others run elsewhere."""
        if self._banks is None or not self._banks.all:
            return self._on_cpu(self._reason)
        elsewhere = sum(route.front is self._cpu for route in self._routes.values())
        note = f"; {elsewhere} of {len(self._routes)} streams run on the CPU" if elsewhere else ""
        backends = self._banks.all[0].backends
        return {stage: Backend(b.name, b.reason + note) for stage, b in backends.items()}

    def backends_of(self, slot: int) -> dict[str, Backend]:
        route = self._routes[slot]
        if route.front is self._cpu:
            return self._on_cpu(route.reason)
        return route.front.backends_of(route.slot)

    def _on_cpu(self, reason: str) -> dict[str, Backend]:
        return {stage: Backend(b.name, reason or b.reason) for stage, b in self._cpu.backends.items()}

    # --- streams ---------------------------------------------------------------------------------------

    def open(
        self,
        spec: AudioSpec,
        channel_map: Sequence[int] | None = None,
        mix: Literal["first", "mean"] = "mean",
        array: ArrayConfig | None = None,
    ) -> int:
        ours = next((slot for slot in range(self._slots) if slot not in self._routes), None)
        if ours is None:
            raise CosydError(f"all {self._slots} streams are in use; raise frontend.max_streams")
        route = self._on_gpu(spec, channel_map, mix) if array is None else ARRAYS_ELSEWHERE
        if isinstance(route, str):
            slot = self._cpu.open(spec, channel_map, mix, array)
            route = Route(self._cpu, slot, spec, channel_map, mix, reason=route)
        self._enter(ours, route)
        return ours

    def _on_gpu(
        self, spec: AudioSpec, channel_map: Sequence[int] | None, mix: Literal["first", "mean"]
    ) -> Route | str:
        """A place on the GPU, or why there is none."""
        if self._banks is None:
            return self._reason
        try:
            bank = self._banks.place()
        except GpuError as error:
            self._told.health(
                Health(
                    "gpu_fallback",
                    "warning",
                    f"a new stream runs on the CPU: {error}",
                    {"reason": str(error)},
                )
            )
            log.warning("a new stream runs on the CPU: %s", error)
            return str(error)
        try:
            return Route(bank, bank.open(spec, channel_map, mix), spec, channel_map, mix)
        except UnsupportedFormat as error:  # the CPU's own error, if it does not take it either, comes next
            self._banks.refuse("format")
            log.warning("a new stream runs on the CPU: %s", error)
            return str(error)

    def _enter(self, ours: int, route: Route) -> None:
        self._routes[ours] = route
        self._numbers.setdefault(id(route.front), Numbers()).ours[route.slot] = ours

    def close(self, slot: int) -> None:
        route = self._routes.pop(slot, None)
        if route is not None:
            route.front.close(route.slot)
            del self._numbers[id(route.front)].ours[route.slot]

    def lend(self, slot: int, capacity: int) -> None:
        route = self._routes[slot]
        route.front.lend(route.slot, capacity)

    def restart(self, slot: int, sample: int | None = None) -> None:
        route = self._routes[slot]
        route.front.restart(route.slot, sample)
        route.due = None

    def push(self, slot: int, frames: Frames, sample: int) -> int:
        route = self._routes[slot]
        return route.front.push(route.slot, frames, sample)

    def flush(self, slot: int) -> None:
        route = self._routes[slot]
        route.front.flush(route.slot)

    def statistics(self, slot: int) -> SlotStatistics:
        route = self._routes[slot]
        return route.front.statistics(route.slot)

    # --- a step ----------------------------------------------------------------------------------------

    def step(self) -> FrontBatch | None:
        """A block of every stream that has one. A GPU that fails is no error: its streams move first."""
        self._look()
        while True:
            if self._ready:
                return self._ready.popleft()
            banks = self._banks
            found = self._step_gpu()
            if self._banks is banks:  # else what the CPU has now follows on what the GPU still gave
                found += self._step_one(self._cpu)
                if not found:
                    return None
            rows = [batch for batch in found if len(batch.slots)]
            if rows:
                return together(rows)

    def _step_gpu(self) -> list[FrontBatch]:
        if self._banks is None:
            return []
        found: list[FrontBatch] = []
        for bank in self._banks.all:
            try:
                found += self._step_one(bank)
            except GpuError as error:
                self._abandon(error)
                break
        return found

    def _step_one(self, front: StreamFrontEnd) -> list[FrontBatch]:
        """Its batch in our numbers, without what was given before; empty when it has none."""
        batch = front.step()
        if batch is None:
            return []
        numbers = self._numbers[id(front)]
        ours = numbers.convert(batch.slots)
        voices = {numbers.ours[slot]: heard for slot, heard in batch.voices.items()}
        if all(route.due is None for route in self._routes.values()):
            return [replace(batch, slots=ours, voices=voices)]
        keep = np.array([self._is_due(int(o), int(s)) for o, s in zip(ours, batch.samples, strict=True)])
        return [FrontBatch(ours[keep], batch.samples[keep], batch.asr[keep], batch.vad_prob[keep], voices)]

    def _is_due(self, ours: int, sample: int) -> bool:
        route = self._routes[ours]
        if route.due is not None and sample < route.due:
            return False
        route.due = None
        return True

    def _look(self) -> None:
        """Memory, now and then; whether a GPU that failed answers again."""
        if self._banks is None:
            if self._revival is not None and self._revival.poll():
                self._told.renew(f"the GPU answers again; {self._reason}")
            return
        before = self._banks.nearly_full
        try:
            usage = self._banks.look(self._clock())
        except GpuError as error:
            self._abandon(error)
            return
        if usage is None:
            return
        self._told.usage(usage)
        if self._banks.nearly_full != before:
            share = f"{usage.device_used / usage.device_total:.0%}"
            severity, text = ("info", f"the GPU's memory has room again ({share}): new streams run there")
            if self._banks.nearly_full:
                severity, text = (
                    "warning",
                    f"the GPU's memory is nearly full ({share}): new streams run on the CPU",
                )
            log.warning(text)
            details: dict[str, object] = {"used": usage.device_used, "total": usage.device_total}
            self._told.health(Health("gpu_memory", severity, text, details))  # type: ignore[arg-type]

    # --- a GPU that fails ------------------------------------------------------------------------------

    def _abandon(self, error: GpuError) -> None:
        """Its streams go on on the CPU, from the block that was not given."""
        from cosyd.gpu.front_end import KEPT_BLOCKS

        banks, self._banks = self._banks, None
        assert banks is not None, "abandoned once"
        moving = {ours: route for ours, route in self._routes.items() if route.front is not self._cpu}
        text = f"{error}; {len(moving)} streams go on on the CPU until it answers again"
        log.error("%s", text)
        self._reason = f"the GPU failed: {error}"
        again = max(LEAST_AGAIN, min(KEPT_BLOCKS, MOST_AGAIN // max(1, len(moving))))
        for ours, route in moving.items():
            banks.refuse("failure")
            self._move(ours, route, again)
        if banks.newest is not None:
            self._told.usage(replace(banks.newest, used=0, spare_used=0, moved=dict(banks.refused)))
        self._told.health(Health("gpu_failed", "error", text, {"streams": len(moving)}))
        banks.close()
        if self._revival is not None:
            self._revival.failed()

    def _move(self, ours: int, route: Route, again: int) -> None:
        from cosyd.gpu.front_end import GpuFrontEnd

        bank = route.front
        assert isinstance(bank, GpuFrontEnd)
        left = bank.again(route.slot, again)
        del self._numbers[id(bank)].ours[route.slot]
        slot = self._cpu.open(route.spec, route.channel_map, route.mix)
        moved = replace(route, front=self._cpu, slot=slot, reason=self._reason, due=None)
        self._enter(ours, moved)
        if left is None:
            return
        self._cpu.restart(slot, left.sample)
        moved.due = left.due
        self._push_all(slot, left.frames, left.sample)
        if left.finished:
            self._cpu.flush(slot)

    def _push_all(self, slot: int, frames: Frames, sample: int) -> None:
        """More may wait than the CPU takes at once: then its blocks are put aside."""
        at = 0
        while True:
            at += self._cpu.push(slot, frames[at:], sample + at)
            if at == len(frames):
                return
            self._ready.extend(batch for batch in self._step_one(self._cpu) if len(batch.slots))

    def shut(self) -> None:
        """Let go of the GPU. Idempotent."""
        if self._banks is not None:
            self._banks.close()
        if self._revival is not None:
            self._revival.close()
