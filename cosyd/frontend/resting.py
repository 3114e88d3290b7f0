"""A denoiser that rests while nobody speaks: what it would make of silence is heard by nobody.

A stream rests once no block for REST_AFTER blocks may have been speech. While it rests its signal passes as
it is. With the first block that may be speech again, the denoiser goes on from where it stopped with what it
missed, at most the last WARM_UP blocks, and then takes that block. Its state is then that of one which never
rested: after a short rest exactly, after a long one nearly (docs/frontend.md has figures; beginning anew with
as many blocks comes less close). And no rest costs more than not to have rested.

What a stream does follows from its own samples alone, as with any stage.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.stage import Samples, Slots, Stage
from cosyd.spec import FRAME

# Far below where an utterance starts (0.6) or goes on (0.45) by default, so speech that begins softly is
# denoised from before the gate notices; above what silence and steady noise get, else there would be no rest.
WAKE_PROB = 0.15
# An utterance ends after at most 1.2 s of silence, and the next takes 0.3 s from before it. Longer than both
# together, so that no rest falls into an utterance; only what one after a rest takes from before it is raw.
REST_AFTER = FRAME.blocks(1_500)
# Half of it comes less close (46 instead of 48 dB), twice as much closer (51 dB), but the block that wakes
# waits for it: as long as 9 blocks take with the denoiser.
WARM_UP = FRAME.blocks(1_000)


class RestingDenoiser:
    """Runs ``stage``, which it needs for at least ``slots`` streams, for those that do not rest."""

    def __init__(self, stage: Stage, slots: int) -> None:
        self._stage = stage
        self._quiet = np.zeros(slots, np.int64)  # blocks since the last that may have been speech
        self._missed = np.zeros((slots, WARM_UP, FRAME.block), np.float32)  # rings of input while at rest

    def reset(self, slots: Slots) -> None:
        """Put these slots back to the initial state: awake."""
        self._stage.reset(slots)
        self._quiet[slots] = 0

    def process(self, slots: Slots, x: Samples, raw: Samples, prob: Samples) -> Samples:
        """``x`` float32 [n, block] -> denoised, or the row of ``raw`` where the stream rests.

        ``raw``: ``x``, as late as the stage's output; ``prob`` [n]: how probably a row of ``raw`` is speech.
        """
        before = self._quiet[slots]
        quiet = (before + 1) * (prob < WAKE_PROB)
        self._quiet[slots] = quiet
        resting = quiet > REST_AFTER
        if resting.all():
            self._keep(slots, quiet, x)
            return raw
        self._keep(slots[resting], quiet[resting], x[resting])
        for row in np.flatnonzero((quiet == 0) & (before > REST_AFTER)):
            self._catch_up(slots[row : row + 1], int(before[row]) - REST_AFTER)
        awake = ~resting
        denoised = raw.copy()
        denoised[awake] = self._stage.process(slots[awake], x[awake])
        return denoised

    def _keep(self, slots: Slots, quiet: NDArray[np.int64], x: Samples) -> None:
        """Note what resting slots miss."""
        self._missed[slots, (quiet - REST_AFTER - 1) % WARM_UP] = x

    def _catch_up(self, slot: Slots, missed: int) -> None:
        """Run the stage over the last of so many blocks that this one slot missed."""
        last = np.arange(max(0, missed - WARM_UP), missed) % WARM_UP
        self._stage.process(slot, self._missed[slot, last].reshape(1, -1))
