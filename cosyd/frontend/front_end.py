"""From device frames to what the recogniser hears and the probability that it is speech.

Each stream is mixed and resampled as it comes (``push``); from there on one call a stage works on a block of
every stream that has one, or on several where they wait already (``step``). Which stages there are follows
from the configuration: the denoiser does not exist where nobody hears it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cosyd.config.schema import ArrayConfig, FrontendConfig
from cosyd.errors import CosydError
from cosyd.frontend.contract import PENDING_BLOCKS, STEP_BLOCKS, FrontBatch, SlotStatistics, may_rest
from cosyd.frontend.filters import DcRemoval, Delay
from cosyd.frontend.intake import ArrayIntake, Intake
from cosyd.frontend.pcm import Frames
from cosyd.frontend.resting import WAKE_PROB, Flags, RestingDenoiser
from cosyd.frontend.snr import SnrTracker
from cosyd.frontend.stage import Detector, Samples, Slots, Stage
from cosyd.frontend.waiting import WaitingBlocks
from cosyd.spec import AudioSpec
from cosyd.types import Backend, Voice


class FrontEnd:
    """All streams. Not for several threads at once.

    ``vad_model`` and ``denoise_model`` are stages for at least ``slots`` streams; ``denoise_model`` is None
    exactly where ``needs_denoiser`` says so. ``cosyd.frontend.factory`` makes the whole from a configuration.
    """

    def __init__(
        self, frontend: FrontendConfig, vad_model: Detector, denoise_model: Stage | None, slots: int
    ) -> None:
        self._config = frontend
        self._vad = vad_model
        self._denoise = denoise_model
        self._dc = DcRemoval(slots) if frontend.remove_dc else None
        self._resting: RestingDenoiser | None = None
        if denoise_model and may_rest(frontend):
            self._resting = RestingDenoiser(denoise_model, slots)
        self._snr: SnrTracker | None = None
        if self._resting and frontend.asr_input == "blend" and frontend.blend_below_db is not None:
            self._snr, self._blend_below_db = SnrTracker(slots), frontend.blend_below_db
        self._delay = Delay(slots, denoise_model.delay) if denoise_model else None
        self._intakes: dict[int, Intake | ArrayIntake] = {}
        self._arrays: dict[int, ArrayIntake] = {}  # those of them that are from microphone arrays
        self._slots = slots
        self._waiting = WaitingBlocks(slots)
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
        array: ArrayConfig | None = None,
    ) -> int:
        """A slot for a new stream. Its clock is set by ``restart`` or the first ``push``.

        ``array``: its channels are a microphone array's; takes the place of ``channel_map`` and ``mix``.
        """
        free = next((slot for slot in range(self._slots) if slot not in self._intakes), None)
        if free is None:
            raise CosydError(f"all {self._slots} streams are in use; raise frontend.max_streams")
        if array is None:
            self._intakes[free] = Intake(spec, channel_map, mix, self.delay)
        else:
            from cosyd.array.make import make_path  # beams, tracks and echoes: for arrays only

            intake = ArrayIntake(spec, make_path(array, self.delay), self.delay)
            self._intakes[free] = self._arrays[free] = intake
            self._waiting.widen(free, intake.path.rows)
        self._reset(free)
        return free

    def close(self, slot: int) -> None:
        """Give the slot back; blocks that wait are dropped. Closing twice does no harm."""
        self._intakes.pop(slot, None)
        self._arrays.pop(slot, None)
        self._full.discard(slot)
        self._waiting.close(slot)

    def lend(self, slot: int, capacity: int) -> None:
        """The ring that the frames lie in is of no use here: they are converted as they come."""

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
        full = slot in self._full and self._fill(slot, intake)
        while taken < len(frames) and not full:
            piece = frames[taken : taken + intake.piece]
            intake.push(piece, sample + taken)
            taken += len(piece)
            full = self._fill(slot, intake)
        return taken

    def flush(self, slot: int) -> None:
        """End of the stream: the rest comes out, its last block filled up with silence."""
        self._intakes[slot].flush()
        self._fill(slot, self._intakes[slot])

    def statistics(self, slot: int) -> SlotStatistics:
        """Counters of one stream."""
        return SlotStatistics(self._waiting.waiting(slot), self._intakes[slot].nonfinite)

    def step(self) -> FrontBatch | None:
        """Process blocks that wait, of each slot that has any equally many; None when no slot has one.

        Blocks of a stream that lie before its time 0 (see Intake) are processed and not given.
        """
        while len(slots := self._waiting.slots):
            early = self._discard[slots] > 0
            if early.any():
                self._run_in(slots[early])
                continue
            count = self._waiting_together(slots)
            blocks, clocks = self._next_blocks(slots, count)
            asr, prob, voices = self._hear(slots, blocks)
            return _batch(slots, clocks, asr, prob, voices)
        return None

    def _waiting_together(self, slots: Slots) -> int:
        """Blocks that each of these slots has, to be processed at once. What becomes of a block of an array
        is what its next one goes by."""
        if self._arrays and any(int(slot) in self._arrays for slot in slots):
            return 1
        return min(STEP_BLOCKS, int(self._waiting.count(slots).min()))

    def _next_blocks(self, slots: Slots, count: int) -> tuple[Samples, NDArray[np.int64]]:
        """Take ``count`` blocks of each slot, [n, count · block], and their clocks [n, count].

        What the intakes held back for want of room moves up.
        """
        blocks, clocks, arrays = self._waiting.take(slots, count)
        for row, slot in enumerate(slots if arrays else ()):
            if (rows := arrays.get(int(slot))) is not None:
                blocks[row, 0] = self._arrays[int(slot)].path.process(rows[0])
        for slot in tuple(self._full):
            self._fill(slot, self._intakes[slot])
        return blocks.reshape(len(slots), -1), clocks

    def _run_in(self, slots: Slots) -> None:
        """Blocks before time 0 come out of the denoiser and the delay first, and nobody hears them."""
        x, _ = self._next_blocks(slots, 1)
        self._discard[slots] -= 1
        if self._dc is not None:
            x = self._dc.process(slots, x)
        for stage in (self._delay, self._denoise):
            if stage is not None:
                stage.process(slots, x)

    def _hear(self, slots: Slots, x: Samples) -> tuple[Samples, Samples, dict[int, tuple[Voice, ...]]]:
        """Of raw blocks [n, whole blocks]: what the recogniser hears, probabilities [n, blocks], voices."""
        if self._dc is not None:
            x = self._dc.process(slots, x)
        if self._denoise is None or self._delay is None:
            prob = self._vad.detect(slots, x)
            return x, prob, self._tell_arrays(slots, x, None, prob)
        raw = self._delay.process(slots, x)
        if self._resting is not None:
            prob = self._vad.detect(slots, raw)
            denoised = self._resting.process(slots, x, raw, self._needed(slots, raw, prob))
        else:
            denoised = self._denoise.process(slots, x)
            signal = denoised if self._config.vad_input == "denoised" else raw
            prob = self._vad.detect(slots, signal)
        return self._blend(raw, denoised), prob, self._tell_arrays(slots, raw, denoised, prob)

    def _needed(self, slots: Slots, raw: Samples, prob: Samples) -> Flags:
        """[n, blocks]: what may be speech and does not stand out by itself; of an array all speech, as its
        beam learns from the mask."""
        speech = prob >= WAKE_PROB
        if self._snr is None:
            return speech
        buried = self._snr.follow(slots, raw, prob) < self._blend_below_db
        for row, slot in enumerate(slots if self._arrays else ()):
            buried[row] |= int(slot) in self._arrays
        return speech & buried

    def _tell_arrays(
        self, slots: Slots, raw: Samples, denoised: Samples | None, prob: Samples
    ) -> dict[int, tuple[Voice, ...]]:
        """What became of their output, so that they learn from it; who speaks around them."""
        if not self._arrays:
            return {}
        return {
            int(slot): self._arrays[int(slot)].path.heard(
                raw[row], None if denoised is None else denoised[row], float(prob[row, 0])
            )
            for row, slot in enumerate(slots)
            if int(slot) in self._arrays
        }

    def _blend(self, raw: Samples, denoised: Samples) -> Samples:
        """What the recogniser hears of both."""
        if self._config.asr_input == "raw" or denoised is raw:
            return raw
        if self._config.asr_input == "denoised":
            return denoised
        return raw + np.float32(self._config.blend) * (denoised - raw)

    def _fill(self, slot: int, intake: Intake | ArrayIntake) -> bool:
        """Move the intake's blocks into the ring; True when the ring is full."""
        room = PENDING_BLOCKS - self._waiting.waiting(slot)
        blocks, clocks = intake.take(room)
        self._waiting.add(slot, blocks, clocks)
        if len(blocks) < room:
            self._full.discard(slot)
            return False
        self._full.add(slot)
        return True

    def _reset(self, slot: int) -> None:
        slots = np.array([slot], np.intp)
        for stage in (self._dc, self._delay, self._resting or self._denoise, self._snr, self._vad):
            if stage is not None:
                stage.reset(slots)
        self._full.discard(slot)
        self._waiting.clear(slot)
        self._discard[slot] = self._intakes[slot].discard


def _batch(
    slots: Slots,
    clocks: NDArray[np.int64],
    asr: Samples,
    prob: Samples,
    voices: Mapping[int, tuple[Voice, ...]],
) -> FrontBatch:
    """Of [n, blocks] of everything: the first block of each stream, then the second of each."""
    streams, count = clocks.shape
    blocks = asr.reshape(streams, count, -1).swapaxes(0, 1).reshape(streams * count, -1)
    return FrontBatch(np.concatenate([slots] * count), clocks.T.ravel(), blocks, prob.T.ravel(), voices)
