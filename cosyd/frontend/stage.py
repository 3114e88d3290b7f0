"""The protocol of a front-end stage, fulfilled alike by the CPU and (later) the CUDA backend.

A stage holds the state of many streams in numbered *slots*. One call processes one block of several
streams: row ``i`` of ``x`` belongs to ``slots[i]``. Streams that have no block ready are simply not in the
batch; their state does not move. Output depends only on the samples that a slot has been given since its
reset: neither on how many other streams share the batch nor on their order.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.types import Backend

Slots = NDArray[np.intp]
Samples = NDArray[np.float32]


class Stage(Protocol):
    """A network or filter over blocks of ``FRAME.block`` samples at ``FRAME.rate_hz``."""

    @property
    def backend(self) -> Backend:
        """What it runs on and why."""
        ...

    @property
    def delay(self) -> int:
        """Samples by which the output trails the input."""
        ...

    def reset(self, slots: Slots) -> None:
        """Put these slots back to the initial state."""
        ...

    def process(self, slots: Slots, x: Samples) -> Samples:
        """``x`` float32 [n, whole blocks] -> the same shape; bits are those of one block after the other.

        Of a detector: [n, block] -> its probability [n].
        """
        ...


class Detector(Stage, Protocol):
    """Tells of each block how probably there is something in it."""

    def detect(self, slots: Slots, x: Samples) -> Samples:
        """``x`` float32 [n, whole blocks] -> [n, blocks]; bits are those of one block after the other."""
        ...
