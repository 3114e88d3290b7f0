"""A language model's part in a beam search (shallow fusion): what it says of each token as it comes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decoders.hypothesis import Floats, Ints, Mask

LmStates = NDArray[np.object_]


class LanguageModel(Protocol):
    """Scores are log-probabilities in nats, already weighted; states are immutable and of any type."""

    def begin(self) -> Any:
        """State before the first token."""
        ...

    def step(self, state: Any, token: int) -> tuple[Any, float]:
        """One token on: the next state, and what the token adds to the score (0 within a word that only
        its end makes known)."""
        ...

    def finish(self, state: Any) -> float:
        """What the end of the utterance adds: the last word, if it is still open, and the end itself."""
        ...


def begin_all(model: LanguageModel | None, shape: tuple[int, ...]) -> LmStates:
    """An array of first states; of None without a model."""
    states = np.empty(shape, object)
    if model is not None:
        states[...] = _boxed(model.begin())
    return states


def step_all(model: LanguageModel, states: LmStates, tokens: Ints, emitted: Mask) -> tuple[LmStates, Floats]:
    """Where ``emitted`` the next states and scores, elsewhere the states as they are and 0.

    One call of the model for each token that is new in a hypothesis: a few of a hundred candidates a frame.
    """
    after, scores = states.copy(), np.zeros(states.shape, np.float32)
    for index in zip(*np.nonzero(emitted), strict=True):
        after[index], scores[index] = model.step(states[index], int(tokens[index]))
    return after, scores


def finish_all(model: LanguageModel, states: LmStates) -> NDArray[np.float64]:
    """What the end adds to each, [k]."""
    return np.array([model.finish(state) for state in states], np.float64)


def _boxed(state: Any) -> NDArray[np.object_]:
    """An array of no dimensions that holds ``state``, be it a sequence or not."""
    box = np.empty((), object)
    box[()] = state
    return box
