"""What the ring hands out: blocks of frames, states, statistics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.spec import AudioSpec, SampleFormat

Frames = bytes | bytearray | memoryview | NDArray[Any]  # anything with a contiguous buffer

DTYPES: dict[SampleFormat, np.dtype[Any]] = {
    SampleFormat.S16: np.dtype("<i2"),
    SampleFormat.S24: np.dtype("u1"),  # packed: the three bytes are an axis of their own
    SampleFormat.S32: np.dtype("<i4"),
    SampleFormat.F32: np.dtype("<f4"),
}


def frame_shape(spec: AudioSpec) -> tuple[int, ...]:
    """Shape of one frame in an array: ``[channels]``, for S24 ``[channels, 3]``."""
    return (spec.channels, 3) if spec.format is SampleFormat.S24 else (spec.channels,)


class WriterState(Enum):
    """What a reader can know of its writer."""

    LIVE = "live"
    CLOSED = "closed"  # it ended in good order; no frame follows
    DEAD = "dead"  # its process is gone; another may adopt the ring, then it is LIVE again
    REPLACED = "replaced"  # another file lies at the path: attach anew


@dataclass(eq=False, slots=True)  # not frozen: a reader that was just woken would be 7 us later
class Block:
    """A contiguous run of frames, as a read-only view into the ring.

    ``frames`` is int16, int32 or float32 ``[n, channels]`` (S24: uint8 ``[n, channels, 3]``). The writer may
    overwrite it later: whoever has used it asks ``RingReader.intact``. The view stays mapped for as long
    as anything refers to it.
    """

    index: int  # source clock of the first frame
    frames: NDArray[Any]
    lost: int  # frames that were overwritten before this block could be read
    gap: int  # frames of recorded gaps between the block before and this one

    @property
    def end(self) -> int:
        """Source clock of the frame after the last one."""
        return self.index + len(self.frames)


@dataclass(frozen=True)
class ReaderStatistics:
    """A living reader as the ring knows it. ``position``: no frame before it is in use any more."""

    pid: int
    position: int
    lost: int


@dataclass(frozen=True)
class WriterStatistics:
    """A snapshot; the counters go on over adoptions."""

    write_index: int
    epoch: int
    overruns: int  # how often the device said that it lost input
    overrun_frames: int  # of these, as many frames as anybody could tell
    callbacks: int  # blocks that the C callback has written
    readers: tuple[ReaderStatistics, ...]
