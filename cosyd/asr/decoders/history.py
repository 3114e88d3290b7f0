"""What the hypotheses of a beam search have emitted: shared beginnings, grown once a chunk.

Within a chunk the search notes, frame by frame, which place each hypothesis comes from and what it emitted
there. After the chunk the notes are followed back once, and each hypothesis's tokens are appended to
those of the hypothesis that it came from. A history is a chain of cells from the newest token back;
hypotheses with a common past share its cells, and what nobody continues is freed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from cosyd.asr.decoders.hypothesis import Hypothesis
from cosyd.asr.decoders.native import Records, unwind

_EVENT = ["token", "frame", "log_prob", "boost"]  # of a note, in the order of a cell


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
    origins, counts, events = unwind(notes)
    grown = [
        [before[origin] for origin in row] for before, row in zip(histories, origins.tolist(), strict=True)
    ]
    real = np.arange(events.shape[2]) < counts[:, :, None]
    rows, places, _ = np.nonzero(real)
    for row, place, event in zip(rows.tolist(), places.tolist(), events[real][_EVENT].tolist(), strict=True):
        grown[row][place] = Cell(grown[row][place], *event)
    return grown


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
