"""What every front end can do, whatever it runs on. `tests/unit/gpu/test_front_end_contract.py` runs one body
over all implementations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from cosyd.config.schema import ArrayConfig
from cosyd.frontend.pcm import Frames
from cosyd.spec import AudioSpec
from cosyd.types import Backend

if TYPE_CHECKING:
    from cosyd.frontend.front_end import FrontBatch, SlotStatistics


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
