"""A denoiser that rests while nobody needs it: nobody hears what it makes of silence, and speech that stands
out far from the noise is understood as well without it.

A stream rests once no block for REST_AFTER blocks was needed. While it rests its signal passes as
it is. With the first block that is needed again, the denoiser goes on from where it stopped with what it
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

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]

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
        self._quiet = np.zeros(slots, np.int64)  # blocks since the last that was needed
        self._missed = np.zeros((slots, WARM_UP, FRAME.block), np.float32)  # rings of input while at rest

    def reset(self, slots: Slots) -> None:
        """Put these slots back to the initial state: awake."""
        self._stage.reset(slots)
        self._quiet[slots] = 0

    def process(self, slots: Slots, x: Samples, raw: Samples, needed: Flags) -> Samples:
        """``x`` float32 [n, whole blocks] -> denoised, or of ``raw`` the blocks in which the stream rests.

        ``raw``: ``x``, as late as the stage's output; ``needed`` bool [n, blocks]: whether someone may want
        to hear each block of it denoised.
        """
        before, quiet = self._count(slots, needed)
        if (quiet > REST_AFTER).all():
            self._keep(slots, quiet, x)
            return raw
        if (before <= REST_AFTER).all() and (quiet <= REST_AFTER).all():
            return self._stage.process(slots, x)
        parts = [
            self._process_one(slots, x[:, block], raw[:, block], before[:, at], quiet[:, at])
            for at, block in enumerate(_each_block(needed.shape[1]))
        ]
        return np.concatenate(parts, axis=1)

    def _count(self, slots: Slots, needed: Flags) -> tuple[Counts, Counts]:
        """Blocks since the last that was needed, before each block and after it: [n, blocks]."""
        counts = np.empty((len(slots), needed.shape[1] + 1), np.int64)
        if not needed.any():
            counts[:] = self._quiet[slots, None] + np.arange(counts.shape[1])
        else:
            counts[:, 0] = self._quiet[slots]
            for block in range(needed.shape[1]):
                counts[:, block + 1] = (counts[:, block] + 1) * ~needed[:, block]
        self._quiet[slots] = counts[:, -1]
        return counts[:, :-1], counts[:, 1:]

    def _process_one(self, slots: Slots, x: Samples, raw: Samples, before: Counts, quiet: Counts) -> Samples:
        """One block, in which some streams rest or wake."""
        resting = quiet > REST_AFTER
        self._keep(slots[resting], quiet[resting, None], x[resting])
        for row in np.flatnonzero((quiet == 0) & (before > REST_AFTER)):
            self._catch_up(slots[row : row + 1], int(before[row]) - REST_AFTER)
        awake = ~resting
        denoised = raw.copy()
        if awake.any():
            denoised[awake] = self._stage.process(slots[awake], x[awake])
        return denoised

    def _keep(self, slots: Slots, quiet: Counts, x: Samples) -> None:
        """Note what resting slots miss: ``x`` [n, whole blocks], ``quiet`` [n, blocks]."""
        place = (quiet - REST_AFTER - 1) % WARM_UP
        self._missed[slots[:, None], place] = x.reshape(*quiet.shape, FRAME.block)

    def _catch_up(self, slot: Slots, missed: int) -> None:
        """Run the stage over the last of so many blocks that this one slot missed."""
        last = np.arange(max(0, missed - WARM_UP), missed) % WARM_UP
        self._stage.process(slot, self._missed[slot, last].reshape(1, -1))


def _each_block(count: int) -> list[slice]:
    """Where each of so many blocks is in an array of samples."""
    return [slice(at * FRAME.block, (at + 1) * FRAME.block) for at in range(count)]
