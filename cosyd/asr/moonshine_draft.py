"""What a decode begins with: tokens of an earlier result, and which of them stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NEARLY = 1.5  # nats behind the likeliest
OPEN_TOKENS = 10  # at the end of what was said, some 3 s, which more audio may change
LEAST_KNOWN = 4  # tokens; fewer are not worth it


@dataclass(frozen=True)
class Begun:
    """What decoding begins with. ``forced``: so many tokens are taken as they are; ``lenient``: so many stay
    where they are nearly as likely as the likeliest; the others where decoding would choose them itself."""

    tokens: tuple[int, ...]
    forced: int = 0
    lenient: int = 0

    def known(self, said: Sequence[int]) -> int:
        """How many tokens need no check, given what was said when less of the same audio had been heard:
        those that it has in common but for the last ``OPEN_TOKENS``; 0 where that saves nothing."""
        most = min(len(self.tokens) - OPEN_TOKENS, len(said))
        alike = 0
        while alike < most and self.tokens[alike] == said[alike]:
            alike += 1
        return alike if alike >= LEAST_KNOWN else 0

    def after(self, known: int) -> Begun:
        """What is left without these tokens."""
        return Begun(self.tokens[known:], max(0, self.forced - known), max(0, self.lenient - known))

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
