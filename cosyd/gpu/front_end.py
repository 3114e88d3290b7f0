"""The front end on the GPU, with the methods of cosyd.frontend.front_end.FrontEnd.

``push`` cuts a stream's frames into hops; ``step`` runs one block, four hops, of every stream that has one:
four graph launches, whatever the number of streams, and no Python per stream.

Frames that lie in a ring whose pages the driver maps (``lend``) are not copied: the device reads them there.
The hops that were run stay for a while behind those that wait, so that another front end can take a stream
over without a gap when the device fails (``again``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from cosyd.config.schema import ArrayConfig
from cosyd.errors import CosydError, GpuError, UnsupportedFormat
from cosyd.frontend.contract import PENDING_BLOCKS, FrontBatch, SlotStatistics
from cosyd.frontend.pcm import Frames
from cosyd.frontend.stage import Samples, Slots
from cosyd.gpu.hops import HopPipeline, Takeover, restart_block
from cosyd.gpu.intake import HopCutter, Pages
from cosyd.spec import FRAME, AudioSpec
from cosyd.types import Backend

LENT_S = 8.0  # shortest ring that is read in place: more than twice what may wait and is kept
LENT_BYTES = 1 << 28  # largest ring that is: mapped pages are pinned
# Run already, kept for another front end: 2 s. On speech, networks that begin so long before come within
# 52 dB of those that ran all the time; with one second 48 dB, with three 55.
KEPT_BLOCKS = 64
COPIED = "frames copied through page-locked memory"
IN_PLACE = "frames read in the ring's pages"
_PENDING_HOPS = PENDING_BLOCKS * FRAME.block_hops
_RING_HOPS = _PENDING_HOPS + (KEPT_BLOCKS + 1) * FRAME.block_hops


class GpuFrontEnd:
    """All streams of one pipeline, which it closes. Used by one thread.

    ``backend``: what its stages run on. The denoiser never rests here (``frontend.denoise_rests``): a step
    costs the same with and without it.
    """

    def __init__(self, pipeline: HopPipeline, backend: Backend) -> None:
        self._pipeline = pipeline
        self._settings = pipeline.settings
        self._backend = backend
        slots = self._settings.slots
        self._cutters: dict[int, HopCutter] = {}
        self._joined = np.zeros(slots, np.bool_)
        # Rings of hops, ready to be copied to page-locked memory in one operation.
        self._hops = np.zeros((slots * _RING_HOPS, pipeline.stride), np.uint8)
        self._where = np.zeros(slots * _RING_HOPS, np.int64)  # of hops that are read in place: where they lie
        self._shift = np.zeros(slots, np.int64)  # from there to the same on the device
        self._lent: dict[int, int] = {}  # frames that a slot's ring keeps
        self._path: dict[int, str] = {}  # how a slot's frames get to the device, in words
        self._head = np.zeros(slots, np.int64)
        self._tail = np.zeros(slots, np.int64)
        self._block = np.zeros(slots, np.int64)  # blocks that have come out since the stream began
        self._early = (self._settings.lead + self._settings.trail) // FRAME.block  # of them nobody hears

    def __enter__(self) -> GpuFrontEnd:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()

    def shut(self) -> None:
        """Close the pipeline. Idempotent."""
        for slot in self._cutters:
            self._return(slot)
        self._pipeline.close()

    @property
    def delay(self) -> int:
        """Samples at 16 kHz by which the output trails the input, beside the blocks themselves."""
        return self._settings.trail

    @property
    def backends(self) -> dict[str, Backend]:
        """What each stage with a network runs on, and why."""
        stages = ("vad", "denoise") if self._settings.denoise else ("vad",)
        return dict.fromkeys(stages, self._backend)

    def backends_of(self, slot: int) -> dict[str, Backend]:
        """The same of one stream, and how its frames get to the device."""
        backend = Backend(self._backend.name, f"{self._backend.reason}; {self._path.get(slot, COPIED)}")
        return dict.fromkeys(self.backends, backend)

    @property
    def free(self) -> int:
        """Slots that are not in use."""
        return self._settings.slots - len(self._cutters)

    def open(
        self,
        spec: AudioSpec,
        channel_map: Sequence[int] | None = None,
        mix: Literal["first", "mean"] = "mean",
        array: ArrayConfig | None = None,
    ) -> int:
        """A slot for a new stream. Its clock is set by ``restart`` or the first ``push``.

        Raises UnsupportedFormat for what the kernels do not take, which microphone arrays are.
        """
        if array is not None:
            raise UnsupportedFormat("the channels of a microphone array are joined on the CPU")
        settings = self._settings
        free = next((slot for slot in range(settings.slots) if slot not in self._cutters), None)
        if free is None:
            raise CosydError(f"all {settings.slots} streams are in use; raise frontend.max_streams")
        ratio = self._pipeline.filters.ratio(spec.rate_hz)
        if (width := ratio.most_frames * spec.frame_bytes) > self._pipeline.stride:
            raise UnsupportedFormat(
                f"{spec}: a hop of {width:,} bytes is wider than the {self._pipeline.stride:,} of the GPU's"
            )
        self._cutters[free] = HopCutter(spec, channel_map, mix, ratio, settings.lead)
        self._reset(free)
        return free

    def close(self, slot: int) -> None:
        """Give the slot back; blocks that wait are dropped. Closing twice does no harm."""
        if slot in self._cutters:
            self._return(slot)
            del self._cutters[slot]
        self._lent.pop(slot, None)
        self._path.pop(slot, None)
        self._reset(slot)

    def lend(self, slot: int, capacity: int) -> None:
        """What is pushed are views of a ring that keeps ``capacity`` frames: they may be read there later."""
        spec = self._cutters[slot].spec
        nbytes = 2 * capacity * spec.frame_bytes
        if not self._settings.lent:
            return
        if capacity < spec.frames(LENT_S):
            self._path[slot] = f"{COPIED}: the ring is shorter than {LENT_S:g} s"
        elif nbytes > LENT_BYTES:
            self._path[slot] = f"{COPIED}: the ring's {nbytes:,} bytes are too many to pin"
        else:
            self._lent[slot] = capacity

    def _borrow(self, slot: int, cutter: HopCutter, frames: Frames, sample: int) -> None:
        """With the first frames: have the driver map the ring. Where it does not, they are copied."""
        pages = Pages(frames, sample, self._lent.pop(slot))
        try:
            device = self._pipeline.register(pages.address, pages.nbytes)
        except GpuError as error:
            self._path[slot] = f"{COPIED}: {error}"
            return
        cutter.pages, self._shift[slot], self._path[slot] = pages, device - pages.address, IN_PLACE

    def _return(self, slot: int) -> None:
        cutter = self._cutters[slot]
        if cutter.pages is not None:
            self._pipeline.unregister(cutter.pages.address)
            cutter.pages = None

    def restart(self, slot: int, sample: int | None = None) -> None:
        """After a gap: as if just opened; the next frame is at ``sample``."""
        self._cutters[slot].restart(sample)
        self._reset(slot)

    def push(self, slot: int, frames: Frames, sample: int) -> int:
        """Take frames whose first is at ``sample``; returns how many were taken, as FrontEnd.push does."""
        cutter, piece = self._cutters[slot], self._pipeline.filters.most_frames
        if slot in self._lent and len(frames):
            self._borrow(slot, cutter, frames, sample)
        if cutter.pages is not None and not cutter.pages.holds(frames, sample):
            raise ValueError("frames pushed that do not lie in the ring that was lent")
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
        """Process one block of every slot that has one; None when no slot has.

        GpuError when the device fails: no block is given then, and ``again`` has what was not given.
        """
        while len(slots := np.flatnonzero(self._tail - self._head >= FRAME.block_hops)):
            self._join(slots)
            asr, vad = self._run_block(slots)
            self._block[slots] += 1
            self._refill(slots)
            heard = self._block[slots] > self._early
            if heard.any():
                slots = slots[heard]
                clocks = [self._clock(int(slot), int(self._block[slot]) - 1) for slot in slots]
                return FrontBatch(slots, np.array(clocks, np.int64), asr[heard], vad[heard])
        return None

    def again(self, slot: int, most_blocks: int = KEPT_BLOCKS) -> Takeover | None:
        """For another front end: the frames of what has not come out yet, and of about ``most_blocks`` blocks
        before it, which put the networks' states where they were. None where no clock is set yet."""
        cutter, tail = self._cutters[slot], int(self._tail[slot])
        due = max(0, int(self._block[slot]) - self._early)
        oldest = max(0, tail - _RING_HOPS)
        pieces = [self._piece(slot, cutter, hop) for hop in range(oldest, tail)]
        nothing = np.zeros((0, *cutter.shape), cutter.dtype)
        if not cutter.begun:
            return None
        oldest_frame = cutter.piece_start(oldest) if oldest else 0
        block = restart_block(cutter, due, most_blocks, oldest_frame)
        frames, sample = cutter.again(np.concatenate([nothing, *pieces]), oldest, block)
        return Takeover(frames, sample, cutter.clock(due * FRAME.block), cutter.finished)

    def _piece(self, slot: int, cutter: HopCutter, hop: int) -> Frames:
        """The frames of a hop that is still in the ring."""
        count = cutter.piece_start(hop + 1) - cutter.piece_start(hop)
        row = slot * _RING_HOPS + hop % _RING_HOPS
        if self._where[row] and cutter.pages is not None:
            return cutter.pages.view(cutter.origin + cutter.piece_start(hop), count)
        size = count * int(np.prod(cutter.shape)) * cutter.dtype.itemsize
        frames: Frames = self._hops[row, :size].view(cutter.dtype).reshape(count, *cutter.shape)
        return frames

    def _clock(self, slot: int, block: int) -> int:
        """Source clock of the first sample of a slot's block, counted from the first that was run."""
        return self._cutters[slot].clock((block - self._early) * FRAME.block)

    def _run_block(self, slots: Slots) -> tuple[Samples, Samples]:
        """Four hops: asr [n, block] and the probability that became known in them [n]."""
        asr = np.empty((len(slots), FRAME.block), np.float32)
        vad = np.zeros(len(slots), np.float32)
        tickets: list[tuple[int, int]] = []
        for hop in range(FRAME.block_hops):
            if len(tickets) > 1:
                self._gather(*tickets.pop(0), asr, vad)
            self._begin(slots)
            self._head[slots] += 1
            tickets.append((hop, self._pipeline.launch()))
        for ticket in tickets:
            self._gather(*ticket, asr, vad)
        return asr, vad

    def _begin(self, slots: Slots) -> None:
        """The next hop of these slots: where its frames lie, or the frames themselves."""
        rows = slots * _RING_HOPS + self._head[slots] % _RING_HOPS
        where = self._where[rows]
        lent = where > 0
        if not lent.any():
            np.take(self._hops, rows, 0, self._pipeline.begin(slots), mode="clip")  # "raise" would copy twice
            return
        pcm = self._pipeline.begin(slots, np.where(lent, where + self._shift[slots], 0))
        if not lent.all():
            pcm[~lent] = self._hops[rows[~lent]]

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
            row = slot * _RING_HOPS + self._tail[slot] % _RING_HOPS
            self._where[row] = piece.ctypes.data if cutter.in_place else 0
            if not cutter.in_place:
                content = np.ascontiguousarray(piece).view(np.uint8).reshape(-1)
                self._hops[row, : len(content)] = content
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
