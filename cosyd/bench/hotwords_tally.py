"""Word errors and hotwords of one way of decoding, counted clip by clip so that two ways can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cosyd.bench.text import edit_distance, normalise

DRAWS = 2_000
SEED = 5
SHARE = 90  # per cent of the draws that the range holds


class Tally:
    """``phrases``: the hotwords. ``errors``, ``words``, ``said``, ``found``, ``alarms``: sums over all clips.

    ``said`` hotwords stand in references, ``found`` of them in the results too, and ``alarms`` stand in
    results without a place in the reference.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self._phrases = sorted((normalise(phrase) for phrase in phrases), key=lambda p: -len(p.split()))
        self.by_clip: list[tuple[int, int]] = []  # errors and words
        self.said = self.found = self.alarms = 0

    def add(self, reference: str, result: str) -> None:
        wanted, heard = normalise(reference).split(), normalise(result).split()
        self.by_clip.append((edit_distance(wanted, heard), len(wanted)))
        said, found = self._hotwords(wanted), self._hotwords(heard)
        self.said += said.total()
        self.found += (said & found).total()
        self.alarms += (found - said).total()

    @property
    def errors(self) -> int:
        return sum(errors for errors, _ in self.by_clip)

    @property
    def words(self) -> int:
        return sum(words for _, words in self.by_clip)

    @property
    def wer(self) -> float:
        """Per cent."""
        return 100 * self.errors / max(1, self.words)

    def _hotwords(self, words: Sequence[str]) -> Counter[str]:
        """Each place counts for the longest phrase that stands there."""
        text = f" {'  '.join(words)} "
        found: Counter[str] = Counter()
        for phrase in self._phrases:
            pattern = f" {'  '.join(phrase.split())} "
            found[phrase] = text.count(pattern)
            text = text.replace(pattern, " | ")
        return +found


def fall(without: Tally, by: Tally) -> float:
    """Per cent of the errors ``without`` that are gone ``by`` the other way."""
    return 100 * (without.errors - by.errors) / max(1, without.errors)


def fall_range(without: Tally, by: Tally) -> tuple[float, float]:
    """The range that ``SHARE`` per cent of the falls are in when as many clips are drawn with replacement."""
    rng = np.random.default_rng(SEED)
    pairs = np.array([(a, b) for (a, _), (b, _) in zip(without.by_clip, by.by_clip, strict=True)])
    drawn = pairs[rng.integers(len(pairs), size=(DRAWS, len(pairs)))].sum(axis=1)
    falls = 100 * (drawn[:, 0] - drawn[:, 1]) / np.maximum(1, drawn[:, 0])
    edge = (100 - SHARE) / 2
    low, high = np.percentile(falls, (edge, 100 - edge))
    return float(low), float(high)
