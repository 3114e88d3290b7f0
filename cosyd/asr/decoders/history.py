"""What the hypotheses of a beam search have emitted: shared beginnings, grown once a chunk.

Within a chunk the search notes, frame by frame, which place each hypothesis comes from and what it emitted
there. After the chunk the notes are followed backwards once, and each hypothesis's tokens are appended to
those of the hypothesis that it came from. A history is a chain of cells from the newest token back;
hypotheses with a common past share its cells, and what nobody continues is freed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from cosyd.asr.decoders.hypothesis import Hypothesis
from cosyd.asr.decoders.native import Records


class Cell(NamedTuple):
    """A token and all before it."""

    before: Cell | None
    token: int
    frame: int
    log_prob: float
    boost: float


History: TypeAlias = "Cell | None"


def cells_of(history: History) -> list[Cell]:
    """First to last."""
    cells: list[Cell] = []
    while history is not None:
        cells.append(history)
        history = history.before
    return cells[::-1]


def grow(histories: Sequence[Sequence[History]], notes: Records) -> list[list[History]]:
    """The histories [rows][width] after a chunk from those before it; ``notes`` [frames, rows, width]."""
    _, rows, width = notes.shape
    place = np.broadcast_to(np.arange(width), (rows, width))
    row = np.arange(rows)[:, None]
    found: list[list[tuple[int, int, float, float]]] = [[] for _ in range(rows * width)]
    for note in notes[::-1]:
        here = note[row, place]
        at = np.flatnonzero(here["emitted"])
        events = here.reshape(-1)[at][["token", "frame", "log_prob", "boost"]].tolist()
        for slot, event in zip(at.tolist(), events, strict=True):
            found[slot].append(event)
        place = here["parent"]
    return [
        [_chain(histories[i][j], found[i * width + k]) for k, j in enumerate(origins)]
        for i, origins in enumerate(place.tolist())
    ]


def hypothesis_of(cells: Sequence[Cell], score: float, blanks: int, *, boosted: bool) -> Hypothesis:
    """``boosted``: whether boosts are told."""
    return Hypothesis(
        tuple(cell.token for cell in cells),
        tuple(cell.frame for cell in cells),
        tuple(cell.log_prob for cell in cells),
        score,
        blanks,
        tuple(cell.boost for cell in cells) if boosted else (),
    )


def _chain(history: History, events: list[tuple[int, int, float, float]]) -> History:
    for event in reversed(events):
        history = Cell(history, *event)
    return history
