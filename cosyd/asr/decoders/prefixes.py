"""The hypotheses of a CTC prefix beam search, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosyd.asr.decoders.beams import EMPTY, Doubles, Hashes
from cosyd.asr.decoders.context_graph import ROOT
from cosyd.asr.decoders.hypothesis import Floats, Ints
from cosyd.asr.decoders.language_model import LmStates

NONE = -1  # the last token of a hypothesis without any


@dataclass
class Prefixes:
    """Hypotheses, [k] of one stream or [n, width] of a batch, where a score of -inf is none at all.

    ``blank``, ``label``: log-probability of the alignments that end in a blank, and in the last token;
    ``bonus``: what hotwords and language model gave. ``last``: the last token, which is not in the history
    yet; ``boost``: what hotwords gave for it; ``..._frame`` and ``..._peak``: where the likeliest alignment
    of either kind enters it, and its highest log-probability there. ``hashes``: of all tokens, ``before``:
    of all but the last; ``phrases``: states in the context graph; ``lm``: those of the language model.
    """

    blank: Doubles
    label: Doubles
    bonus: Doubles
    last: Ints
    boost: Floats
    blank_frame: Ints
    label_frame: Ints
    blank_peak: Floats
    label_peak: Floats
    hashes: Hashes
    before: Hashes
    phrases: Ints
    lm: LmStates

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Prefixes:
        return cls(
            blank=np.full(shape, -np.inf),
            label=np.full(shape, -np.inf),
            bonus=np.zeros(shape),
            last=np.full(shape, NONE),
            boost=np.zeros(shape, np.float32),
            blank_frame=np.zeros(shape, np.int64),
            label_frame=np.zeros(shape, np.int64),
            blank_peak=np.zeros(shape, np.float32),
            label_peak=np.zeros(shape, np.float32),
            hashes=np.full(shape, EMPTY),
            before=np.zeros(shape, np.uint64),
            phrases=np.full(shape, ROOT),
            lm=np.empty(shape, object),
        )

    @property
    def total(self) -> Doubles:
        """Log-probability of all alignments."""
        return np.asarray(np.logaddexp(self.blank, self.label))

    def entry(self) -> tuple[Ints, Floats]:
        """Of the likeliest alignment: where it enters the last token, its highest log-probability in it."""
        blank = self.blank > self.label
        frame = np.where(blank, self.blank_frame, self.label_frame)
        return frame, np.where(blank, self.blank_peak, self.label_peak)

    def put(self, index: object, other: Prefixes) -> None:
        """``self[index] = other`` of every field."""
        for name, values in vars(self).items():
            values[index] = getattr(other, name)

    def take(self, index: object) -> Prefixes:
        """A copy of ``self[index]`` of every field."""
        return Prefixes(**{name: values[index] for name, values in vars(self).items()})

    def pass_blanks(self, log_prob: Doubles) -> None:
        """Frames of nothing but blanks, of that log-probability [n]; 1 where there were none."""
        passed = (log_prob <= 0)[:, None]
        frame, peak = self.entry()
        self.blank_frame = np.where(passed, frame, self.blank_frame)
        self.blank_peak = np.where(passed, peak, self.blank_peak)
        self.blank = np.where(passed, self.total + log_prob[:, None], self.blank)
        self.label = np.where(passed, -np.inf, self.label)
