"""Where each stream runs, and who hears of what happens to the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.contract import FrontBatch, StreamFrontEnd
from cosyd.spec import AudioSpec
from cosyd.types import GpuUsage, Health


class Told(Protocol):
    """Who hears of what happens to the GPU."""

    def health(self, health: Health) -> None: ...

    def usage(self, usage: GpuUsage) -> None: ...

    def alive(self) -> None:
        """Nothing happened, but opening it takes long: kernels are being compiled."""
        ...

    def renew(self, reason: str) -> None:
        """The GPU failed and answers again, to a new process only."""
        ...


class Reviving(Protocol):
    """``cosyd.engine.trial.Revival``."""

    def failed(self) -> None: ...

    def poll(self) -> bool: ...

    def close(self) -> None: ...


@dataclass
class Route:
    """Where a stream runs. ``reason``: why not on the GPU. Blocks before ``due`` were given already."""

    front: StreamFrontEnd
    slot: int
    spec: AudioSpec
    channel_map: Sequence[int] | None
    mix: Literal["first", "mean"]
    reason: str = ""
    due: int | None = None


@dataclass
class Numbers:
    """Our slots of the slots of one front end."""

    ours: dict[int, int] = field(default_factory=dict)

    def convert(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.array([self.ours[int(slot)] for slot in slots], np.intp)


def together(batches: list[FrontBatch]) -> FrontBatch:
    """Of several front ends as one; at least one."""
    if len(batches) == 1:
        return batches[0]
    return FrontBatch(
        np.concatenate([batch.slots for batch in batches]),
        np.concatenate([batch.samples for batch in batches]),
        np.concatenate([batch.asr for batch in batches]),
        np.concatenate([batch.vad_prob for batch in batches]),
        {slot: heard for batch in batches for slot, heard in batch.voices.items()},
    )
