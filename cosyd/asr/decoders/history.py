"""What the hypotheses of a beam search have emitted: shared beginnings, grown once a chunk.

Within a chunk a search notes, frame by frame and for all streams at once, which hypothesis each one continues
and what that emitted. After the chunk the notes are followed backwards once, and each hypothesis's tokens are
appended to those of the hypothesis that it came from. A history is a chain of cells from the newest token
back; hypotheses with a common past share its cells, and what nobody continues is freed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cosyd.asr.decoders.hypothesis import Floats, Ints, Mask


class Cell(NamedTuple):
    """A token and all before it."""

    before: Cell | None
    token: int
    frame: int
    log_prob: float
    boost: float


def cells_of(history: Cell | None) -> list[Cell]:
    """First to last."""
    cells: list[Cell] = []
    while history is not None:
        cells.append(history)
        history = history.before
    return cells[::-1]


class Notes:
    """Of one chunk: ``rows`` streams of ``width`` hypotheses each."""

    def __init__(self, rows: int, width: int) -> None:
        self._shape = (rows, width)
        self._steps: list[tuple[Ints, Ints, Mask, Ints, Ints, Floats, Floats]] = []

    def add(
        self,
        rows: Ints,
        parents: Ints,
        emitted: Mask,
        tokens: Ints,
        frames: Ints,
        log_probs: Floats,
        boosts: Floats,
    ) -> None:
        """One frame of the streams ``rows`` [n]: the others rest. All else is [n, width]; ``parents``: the
        hypothesis that each one continues; the last four count where ``emitted``."""
        self._steps.append((rows, parents, emitted, tokens, frames, log_probs, boosts))

    def grow(self, histories: Sequence[Sequence[Cell | None]]) -> list[list[Cell | None]]:
        """The histories [rows][width] after the chunk from those before it."""
        came_from = np.broadcast_to(np.arange(self._shape[1]), self._shape).copy()
        found: list[list[tuple[int, int, float, float]]] = [[] for _ in range(came_from.size)]
        for rows, parents, emitted, tokens, frames, log_probs, boosts in reversed(self._steps):
            at = came_from[rows]
            here = np.arange(len(rows))[:, None]
            row, column = np.nonzero(emitted[here, at])
            chosen = at[row, column]
            events = zip(
                tokens[row, chosen].tolist(),
                frames[row, chosen].tolist(),
                log_probs[row, chosen].tolist(),
                boosts[row, chosen].tolist(),
                strict=True,
            )
            for slot, event in zip((rows[row] * self._shape[1] + column).tolist(), events, strict=True):
                found[slot].append(event)
            came_from[rows] = parents[here, at]
        return [
            [self._chain(histories[i][j], found[i * self._shape[1] + k]) for k, j in enumerate(row)]
            for i, row in enumerate(came_from.tolist())
        ]

    @staticmethod
    def _chain(history: Cell | None, events: list[tuple[int, int, float, float]]) -> Cell | None:
        for event in reversed(events):
            history = Cell(history, *event)
        return history
