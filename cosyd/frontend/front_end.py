"""From device frames to what the recogniser hears and the probability that it is speech.

Each stream is mixed and resampled as it comes (``push``); from there on one call a stage works on a block of
every stream that has one (``step``). Which stages there are follows from the configuration: the denoiser does
not exist where nobody hears it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cosyd.config.schema import FrontendConfig
from cosyd.errors import CosydError
from cosyd.frontend.filters import DcRemoval, Delay
from cosyd.frontend.intake import Intake
from cosyd.frontend.pcm import Frames
from cosyd.frontend.resting import RestingDenoiser
from cosyd.frontend.stage import Samples, Slots, Stage
from cosyd.spec import FRAME, AudioSpec
from cosyd.types import Backend

PENDING_BLOCKS = (
    64  # blocks that wait for step(), a slot: 2 s, the longest that a reader should hand over at once
)


@dataclass(frozen=True)
class FrontBatch:
    """One block of each of n streams. ``samples`` is the source clock of each block's first sample."""

    slots: Slots  # [n]
    samples: NDArray[np.int64]  # [n]
    asr: Samples  # [n, block] for the recogniser
    vad_prob: Samples  # [n]


@dataclass(frozen=True)
class SlotStatistics:
    """What there is to tell of a stream."""

    pending: int  # blocks that wait for step()
    nonfinite: int  # samples that were NaN or infinite and became 0


def needs_denoiser(config: FrontendConfig) -> bool:
    """Whether the VAD or the recogniser hears anything of the denoised signal."""
    heard = config.vad_input == "denoised" or config.asr_input == "denoised"
    blended = config.asr_input == "blend" and config.blend > 0
    return config.denoise != "off" and (heard or blended)


def may_rest(config: FrontendConfig) -> bool:
    """Whether the denoiser may rest in silence: not where the VAD needs it to tell that there is silence."""
    return config.denoise_rests and config.vad_input == "raw"


class FrontEnd:
    """All streams. Not for several threads at once.

    ``vad_model`` and ``denoise_model`` are stages for at least ``slots`` streams; ``denoise_model`` is None
    exactly where ``needs_denoiser`` says so. ``cosyd.frontend.factory`` makes the whole from a configuration.
    """

    def __init__(
        self, frontend: FrontendConfig, vad_model: Stage, denoise_model: Stage | None, slots: int
    ) -> None:
        self._config = frontend
        self._vad = vad_model
        self._denoise = denoise_model
        self._dc = DcRemoval(slots) if frontend.remove_dc else None
        self._resting: RestingDenoiser | None = None
        if denoise_model and may_rest(frontend):
            self._resting = RestingDenoiser(denoise_model, slots)
        self._delay = Delay(slots, denoise_model.delay) if denoise_model else None
        self._intakes: dict[int, Intake] = {}
        self._slots = slots
        # Rings of waiting blocks: taken blocks count up in _head, added ones in _tail.
        self._blocks = np.zeros((slots, PENDING_BLOCKS, FRAME.block), np.float32)
        self._clocks = np.zeros((slots, PENDING_BLOCKS), np.int64)
        self._head = np.zeros(slots, np.int64)
        self._tail = np.zeros(slots, np.int64)
        self._full: set[int] = set()  # slots whose ring is full, so that their intake may hold more
        self._discard = np.zeros(slots, np.int64)

    @property
    def delay(self) -> int:
        """Samples at 16 kHz by which the output trails the input, beside the blocks themselves."""
        return self._denoise.delay if self._denoise else 0

    @property
    def backends(self) -> dict[str, Backend]:
        """What each stage with a network runs on, and why."""
        stages = {"vad": self._vad, "denoise": self._denoise}
        return {name: stage.backend for name, stage in stages.items() if stage is not None}

    def backends_of(self, slot: int) -> dict[str, Backend]:
        """The same of one stream: here all run alike."""
        return self.backends

    def open(
        self,
        spec: AudioSpec,
        channel_map: Sequence[int] | None = None,
        mix: Literal["first", "mean"] = "mean",
    ) -> int:
        """A slot for a new stream. Its clock is set by ``restart`` or the first ``push``."""
        free = next((slot for slot in range(self._slots) if slot not in self._intakes), None)
        if free is None:
            raise CosydError(f"all {self._slots} streams are in use; raise frontend.max_streams")
        self._intakes[free] = Intake(spec, channel_map, mix, self.delay)
        self._reset(free)
        return free

    def close(self, slot: int) -> None:
        """Give the slot back; blocks that wait are dropped. Closing twice does no harm."""
        self._intakes.pop(slot, None)
        self._full.discard(slot)
        self._head[slot] = self._tail[slot] = 0

    def restart(self, slot: int, sample: int | None = None) -> None:
        """After a gap: as if just opened; the next frame is at ``sample``.

        What was pushed before and has not come out is dropped: ``flush`` and ``step`` first to have it.
        """
        self._intakes[slot].restart(sample)
        self._reset(slot)

    def push(self, slot: int, frames: Frames, sample: int) -> int:
        """Take frames [n, channels] whose first is at ``sample``; returns how many were taken.

        All of them, unless PENDING_BLOCKS blocks wait already: then call ``step`` and push the rest. Frames
        must follow those before without a gap (ValueError), else ``restart`` first.
        """
        intake = self._intakes[slot]
        taken = 0
        while taken < len(frames) and not self._fill(slot, intake):
            piece = frames[taken : taken + intake.piece]
            intake.push(piece, sample + taken)
            taken += len(piece)
        self._fill(slot, intake)
        return taken

    def flush(self, slot: int) -> None:
        """End of the stream: the rest comes out, its last block filled up with silence."""
        self._intakes[slot].flush()
        self._fill(slot, self._intakes[slot])

    def statistics(self, slot: int) -> SlotStatistics:
        """Counters of one stream."""
        return SlotStatistics(int(self._tail[slot] - self._head[slot]), self._intakes[slot].nonfinite)

    def step(self) -> FrontBatch | None:
        """Process one block of every slot that has one; None when no slot has.

        Blocks of a stream that lie before its time 0 (see Intake) are processed and not given.
        """
        while len(slots := np.flatnonzero(self._tail > self._head)):
            early = self._discard[slots] > 0
            if early.any():
                self._run_in(slots[early])
                continue
            blocks, clocks = self._next_blocks(slots)
            return FrontBatch(slots, clocks, *self._hear(slots, blocks))
        return None

    def _next_blocks(self, slots: Slots) -> tuple[Samples, NDArray[np.int64]]:
        """Take a block of each slot; what the intakes held back for want of room moves up."""
        head = self._head[slots]
        place = head % PENDING_BLOCKS
        blocks, clocks = self._blocks[slots, place], self._clocks[slots, place]
        self._head[slots] = head + 1
        for slot in tuple(self._full):
            self._fill(slot, self._intakes[slot])
        return blocks, clocks

    def _run_in(self, slots: Slots) -> None:
        """Blocks before time 0 come out of the denoiser and the delay first, and nobody hears them."""
        x, _ = self._next_blocks(slots)
        self._discard[slots] -= 1
        if self._dc is not None:
            x = self._dc.process(slots, x)
        for stage in (self._delay, self._denoise):
            if stage is not None:
                stage.process(slots, x)

    def _hear(self, slots: Slots, x: Samples) -> tuple[Samples, Samples]:
        """What the recogniser hears of raw blocks [n, block], and the probabilities of speech [n]."""
        if self._dc is not None:
            x = self._dc.process(slots, x)
        if self._denoise is None or self._delay is None:
            return x, self._vad.process(slots, x)
        raw = self._delay.process(slots, x)
        if self._resting is not None:
            prob = self._vad.process(slots, raw)
            return self._blend(raw, self._resting.process(slots, x, raw, prob)), prob
        denoised = self._denoise.process(slots, x)
        signal = denoised if self._config.vad_input == "denoised" else raw
        return self._blend(raw, denoised), self._vad.process(slots, signal)

    def _blend(self, raw: Samples, denoised: Samples) -> Samples:
        """What the recogniser hears of both."""
        if self._config.asr_input == "raw" or denoised is raw:
            return raw
        if self._config.asr_input == "denoised":
            return denoised
        return raw + np.float32(self._config.blend) * (denoised - raw)

    def _fill(self, slot: int, intake: Intake) -> bool:
        """Move the intake's blocks into the ring; True when the ring is full."""
        while self._tail[slot] - self._head[slot] < PENDING_BLOCKS:
            if (taken := intake.take()) is None:
                self._full.discard(slot)
                return False
            place = self._tail[slot] % PENDING_BLOCKS
            self._blocks[slot, place], self._clocks[slot, place] = taken
            self._tail[slot] += 1
        self._full.add(slot)
        return True

    def _reset(self, slot: int) -> None:
        slots = np.array([slot], np.intp)
        for stage in (self._dc, self._delay, self._resting or self._denoise, self._vad):
            if stage is not None:
                stage.reset(slots)
        self._full.discard(slot)
        self._head[slot] = self._tail[slot] = 0
        self._discard[slot] = self._intakes[slot].discard
