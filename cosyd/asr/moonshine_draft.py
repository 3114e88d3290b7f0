"""What a decode begins with: tokens of an earlier result, and which of them stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NEARLY = 1.5  # nats behind the likeliest


@dataclass(frozen=True)
class Begun:
    """What decoding begins with. ``forced``: so many tokens are taken as they are; ``lenient``: so many stay
    where they are nearly as likely as the likeliest; the others where decoding would choose them itself."""

    tokens: tuple[int, ...]
    forced: int = 0
    lenient: int = 0

    def agreed(self, logits: NDArray[Any]) -> int:
        """How many tokens stay. Row ``i`` of the logits [tokens + 1, vocabulary] predicts token ``i``."""
        if not self.tokens:
            return 0
        rows, tokens = logits[:-1], np.asarray(self.tokens)
        places = np.arange(tokens.size)
        behind = rows.max(axis=-1) - rows[places, tokens]
        allowed = np.where(places < self.lenient, NEARLY, 0.0)
        wrong = (behind > allowed) & (rows.argmax(axis=-1) != tokens) & (places >= self.forced)
        return int(wrong.argmax()) if wrong.any() else tokens.size
