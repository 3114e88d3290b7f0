"""What every front end can do, whatever it runs on. `tests/unit/gpu/test_front_end_contract.py` runs one body
over all implementations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.config.schema import ArrayConfig, FrontendConfig
from cosyd.frontend.pcm import Frames
from cosyd.frontend.stage import Samples, Slots
from cosyd.spec import AudioSpec
from cosyd.types import Backend, Voice

PENDING_BLOCKS = 64  # that wait for step(), a slot: 2 s, the longest that a reader should hand over at once
STEP_BLOCKS = 16  # of a stream in one step(), at most: 0.5 s, which take some 5 ms; 32 save another 15 %


@dataclass(frozen=True)
class FrontBatch:
    """n blocks of one or more streams; those of one stream in their order.

    ``samples`` is the source clock of each block's first sample.

    ``voices``: by slot, who is around; of streams from microphone arrays only.
    """

    slots: Slots  # [n]
    samples: NDArray[np.int64]  # [n]
    asr: Samples  # [n, block] for the recogniser
    vad_prob: Samples  # [n]
    voices: Mapping[int, tuple[Voice, ...]] = field(default_factory=dict)


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


class StreamFrontEnd(Protocol):
    """Many streams, each in a slot. For one thread. `cosyd.frontend.front_end.FrontEnd` says it in full."""

    @property
    def delay(self) -> int:
        """Samples at 16 kHz by which the output trails the input, beside the blocks themselves."""
        ...

    @property
    def backends(self) -> dict[str, Backend]:
        """What each stage with a network runs on, and why."""
        ...

    def backends_of(self, slot: int) -> dict[str, Backend]:
        """The same of one stream."""
        ...

    def open(
        self,
        spec: AudioSpec,
        channel_map: Sequence[int] | None = None,
        mix: Literal["first", "mean"] = "mean",
        array: ArrayConfig | None = None,
    ) -> int:
        """A slot for a new stream. CosydError when all are in use."""
        ...

    def close(self, slot: int) -> None:
        """Give the slot back. Idempotent."""
        ...

    def lend(self, slot: int, capacity: int) -> None:
        """What will be pushed are views of a ring that keeps ``capacity`` frames (see cosyd.ring).

        A front end that works somewhere else may read them there instead of copying them.
        """
        ...

    def restart(self, slot: int, sample: int | None = None) -> None:
        """After a gap: as if just opened; the next frame is at ``sample``."""
        ...

    def push(self, slot: int, frames: Frames, sample: int) -> int:
        """Take frames; how many were taken: all, unless PENDING_BLOCKS blocks wait already."""
        ...

    def flush(self, slot: int) -> None:
        """End of the stream: the rest comes out in whole blocks."""
        ...

    def step(self) -> FrontBatch | None:
        """One block or several of slots that have some; None when no slot has."""
        ...

    def statistics(self, slot: int) -> SlotStatistics:
        """Counters of one stream."""
        ...
