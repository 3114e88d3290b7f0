"""The protocol of a step on an array's channels, and the shape of the path that the steps make.

::

    device frames [n, ch] ─► rows: microphones, then references; 16 kHz ─► steps ─► one channel ─► front end

A path belongs to one stream. Its steps get blocks of a whole number of ``FRAME.hop`` samples, one after the
other; what comes out depends on the samples alone, not on how they are cut into blocks.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]


class ArrayStep(Protocol):
    """One step, with the state of its stream."""

    @property
    def delay(self) -> int:
        """Samples at ``FRAME.rate_hz`` by which the output trails the input."""
        ...

    def reset(self) -> None:
        """Back to the initial state: the next block does not follow the one before."""
        ...

    def process(self, block: Samples) -> Samples:
        """float32 [rows in, n] in ±1 -> float32 [rows out, n]; n is a whole number of hops.

        Rows in: the microphones in the order of their geometry, then the references, as long as no step has
        taken them away (an echo canceller does: microphones only come out of it).
        """
        ...
