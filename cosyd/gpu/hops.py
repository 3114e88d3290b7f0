"""What the front end on the GPU stands on, and what it leaves behind for another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from cosyd.frontend.pcm import Frames
from cosyd.gpu.buffers import HopResult
from cosyd.gpu.intake import HopCutter
from cosyd.gpu.settings import Settings
from cosyd.gpu.streams import FilterBank, Ratio
from cosyd.spec import FRAME


class HopPipeline(Protocol):
    """What runs the hops: cosyd.gpu.pipeline.Pipeline, or its reference in NumPy."""

    settings: Settings
    filters: FilterBank
    stride: int

    def join(
        self, slots: NDArray[Any], records: NDArray[Any], ratios: Sequence[Ratio], history: NDArray[Any]
    ) -> None: ...

    def begin(self, slots: NDArray[Any], addresses: NDArray[Any] | None = None) -> NDArray[Any]: ...

    def register(self, address: int, nbytes: int) -> int: ...

    def unregister(self, address: int) -> None: ...

    def launch(self) -> int: ...

    def collect(self, ticket: int) -> HopResult: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Takeover:
    """What another front end needs to go on with a stream.

    ``frames`` [n, channels] begin at ``sample`` of the source clock; of the blocks that come of them, those
    before ``due`` have been given already. ``finished``: the stream's end was announced.
    """

    frames: Frames
    sample: int
    due: int
    finished: bool


def restart_block(cutter: HopCutter, due: int, most_blocks: int, oldest_frame: int) -> int:
    """The block for another front end to begin again from, at most ``most_blocks`` before ``due``: aligned
    with a device frame, with all of its frames, from ``oldest_frame`` on, still there."""
    every = cutter.aligned_blocks
    there = -(-oldest_frame * cutter.ratio.up // (FRAME.block * cutter.ratio.down))
    first = max(0, due - most_blocks, there)
    block = -(-first // every) * every
    return block if block <= due else due // every * every
