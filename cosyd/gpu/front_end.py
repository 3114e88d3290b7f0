"""The front end on the GPU, with the methods of cosyd.frontend.front_end.FrontEnd.

``push`` cuts a stream's frames into hops; ``step`` runs one block, four hops, of every stream that has one:
four graph launches, whatever the number of streams, and no Python per stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Literal

import numpy as np

from cosyd.config.schema import FrontendConfig
from cosyd.errors import CosydError
from cosyd.frontend.front_end import FrontBatch, SlotStatistics, needs_denoiser
from cosyd.frontend.pcm import Frames
from cosyd.frontend.stage import Samples, Slots
from cosyd.gpu.driver import Gpu
from cosyd.gpu.intake import HopCutter
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.settings import Mode, Settings
from cosyd.gpu.weights import DtlnWeights, VadWeights
from cosyd.spec import FRAME, AudioSpec
from cosyd.types import Backend

PENDING_BLOCKS = (
    16  # blocks that wait for step(), a slot: half a second, the most that a reader hands over at once
)
_PENDING_HOPS = PENDING_BLOCKS * FRAME.block_hops


def settings_for(
    config: FrontendConfig, mode: Mode = "fp32", channels: int = 2, sample_bytes: int = 4
) -> Settings:
    """The pipeline that a configuration asks for. ``channels``, ``sample_bytes``: of the widest source."""
    denoise = needs_denoiser(config)
    share = {"raw": 0.0, "denoised": 1.0, "blend": config.blend}[config.asr_input]
    return Settings(
        slots=config.max_streams,
        mode=mode,
        denoise=denoise,
        blend=share if denoise else 0.0,
        vad_denoised=denoise and config.vad_input == "denoised",
        remove_dc=config.remove_dc,
        channels=channels,
        sample_bytes=sample_bytes,
    )


class GpuFrontEnd:
    """All streams on one GPU. Opens in ``__enter__``; used by one thread."""

    def __init__(self, gpu: Gpu, settings: Settings, vad: VadWeights, dtln: DtlnWeights | None) -> None:
        self._gpu = gpu
        self._settings = settings
        self._pipeline = Pipeline(gpu, settings, vad, dtln)
        slots = settings.slots
        self._cutters: dict[int, HopCutter] = {}
        self._joined = np.zeros(slots, np.bool_)
        # Rings of waiting hops, ready to be copied to page-locked memory in one operation.
        self._hops = np.zeros((slots * _PENDING_HOPS, self._pipeline.stride), np.uint8)
        self._head = np.zeros(slots, np.int64)
        self._tail = np.zeros(slots, np.int64)
        self._block = np.zeros(slots, np.int64)  # blocks that have come out since the stream began

    def __enter__(self) -> GpuFrontEnd:
        self._pipeline.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipeline.close()

    @property
    def delay(self) -> int:
        """Samples at 16 kHz by which the output trails the input, beside the blocks themselves."""
        return self._settings.trail

    @property
    def backends(self) -> dict[str, Backend]:
        """What each stage with a network runs on, and why."""
        backend = Backend("cuda", f"{self._gpu.name}, own kernels, {self._settings.mode}")
        return {"vad": backend, "denoise": backend} if self._settings.denoise else {"vad": backend}

    def open(
        self,
        spec: AudioSpec,
        channel_map: Sequence[int] | None = None,
        mix: Literal["first", "mean"] = "mean",
    ) -> int:
        """A slot for a new stream. Its clock is set by ``restart`` or the first ``push``."""
        settings = self._settings
        free = next((slot for slot in range(settings.slots) if slot not in self._cutters), None)
        if free is None:
            raise CosydError(f"all {settings.slots} streams are in use; raise frontend.max_streams")
        if spec.frame_bytes > settings.channels * settings.sample_bytes:
            raise CosydError(
                f"{spec}: frames of {spec.frame_bytes} bytes are wider than the GPU front end was opened for"
            )
        ratio = self._pipeline.filters.ratio(spec.rate_hz)
        self._cutters[free] = HopCutter(spec, channel_map, mix, ratio, settings.lead)
        self._reset(free)
        return free

    def close(self, slot: int) -> None:
        """Give the slot back; blocks that wait are dropped. Closing twice does no harm."""
        self._cutters.pop(slot, None)
        self._reset(slot)

    def restart(self, slot: int, sample: int | None = None) -> None:
        """After a gap: as if just opened; the next frame is at ``sample``."""
        self._cutters[slot].restart(sample)
        self._reset(slot)

    def push(self, slot: int, frames: Frames, sample: int) -> int:
        """Take frames whose first is at ``sample``; returns how many were taken, as FrontEnd.push does."""
        cutter, piece = self._cutters[slot], self._pipeline.filters.most_frames
        taken = 0
        while taken < len(frames) and self._fill(slot, cutter):
            part = frames[taken : taken + piece]
            cutter.push(part, sample + taken)
            taken += len(part)
        self._fill(slot, cutter)
        return taken

    def flush(self, slot: int) -> None:
        """End of the stream: the rest comes out, its last block filled up with the last sample."""
        self._cutters[slot].finish(self.delay)
        self._fill(slot, self._cutters[slot])

    def statistics(self, slot: int) -> SlotStatistics:
        """Counters of one stream."""
        waiting = int(self._tail[slot] - self._head[slot]) // FRAME.block_hops
        return SlotStatistics(waiting, self._cutters[slot].nonfinite)

    def step(self) -> FrontBatch | None:
        """Process one block of every slot that has one; None when no slot has."""
        early = (self._settings.lead + self._settings.trail) // FRAME.block
        while len(slots := np.flatnonzero(self._tail - self._head >= FRAME.block_hops)):
            self._join(slots)
            asr, vad = self._run_block(slots)
            self._block[slots] += 1
            self._refill(slots)
            heard = self._block[slots] > early
            if heard.any():
                slots = slots[heard]
                first = (self._block[slots] - 1 - early) * FRAME.block
                clocks = [self._cutters[int(s)].clock(int(f)) for s, f in zip(slots, first, strict=True)]
                return FrontBatch(slots, np.array(clocks, np.int64), asr[heard], vad[heard])
        return None

    def _run_block(self, slots: Slots) -> tuple[Samples, Samples]:
        """Four hops: asr [n, block] and the probability that became known in them [n]."""
        asr = np.empty((len(slots), FRAME.block), np.float32)
        vad = np.zeros(len(slots), np.float32)
        tickets: list[tuple[int, int]] = []
        for hop in range(FRAME.block_hops):
            if len(tickets) > 1:
                self._gather(*tickets.pop(0), asr, vad)
            np.take(
                self._hops,
                slots * _PENDING_HOPS + self._head[slots] % _PENDING_HOPS,
                0,
                self._pipeline.begin(slots),
            )
            self._head[slots] += 1
            tickets.append((hop, self._pipeline.launch()))
        for ticket in tickets:
            self._gather(*ticket, asr, vad)
        return asr, vad

    def _gather(self, hop: int, ticket: int, asr: Samples, vad: Samples) -> None:
        result = self._pipeline.collect(ticket)
        asr[:, hop * FRAME.hop : (hop + 1) * FRAME.hop] = result.asr
        vad[result.vad_rows] = result.vad_prob

    def _join(self, slots: Slots) -> None:
        """Streams whose first block this is get their state on the device."""
        new = slots[~self._joined[slots]]
        if not len(new):
            return
        cutters = [self._cutters[int(slot)] for slot in new]
        history = np.zeros((len(new), self._pipeline.filters.widest), np.float32)
        for row, cutter in zip(history, cutters, strict=True):
            if cutter.history is not None:
                row[: len(cutter.history)] = cutter.history
        records = np.array([cutter.record for cutter in cutters], cutters[0].record.dtype)
        self._pipeline.join(new, records, [cutter.ratio for cutter in cutters], history)
        self._joined[new] = True

    def _fill(self, slot: int, cutter: HopCutter) -> bool:
        """Move the cutter's hops into the ring; False when the ring is full."""
        while self._tail[slot] - self._head[slot] < _PENDING_HOPS:
            if (piece := cutter.take()) is None:
                return True
            content = np.ascontiguousarray(piece).view(np.uint8).reshape(-1)
            self._hops[slot * _PENDING_HOPS + self._tail[slot] % _PENDING_HOPS, : len(content)] = content
            self._tail[slot] += 1
        return False

    def _refill(self, slots: Slots) -> None:
        """Slots whose ring was full take what their cutters held back."""
        full = self._tail[slots] - self._head[slots] == _PENDING_HOPS - FRAME.block_hops
        for slot in slots[full]:
            self._fill(int(slot), self._cutters[int(slot)])

    def _reset(self, slot: int) -> None:
        self._head[slot] = self._tail[slot] = self._block[slot] = 0
        self._joined[slot] = False
