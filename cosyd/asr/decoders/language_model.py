"""A language model's part in a beam search (shallow fusion): what it says of each token as it comes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decoders.hypothesis import Ints

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


def begin_all(model: LanguageModel | None, width: int) -> LmStates:
    """First states, [width]; None without a model."""
    states = np.empty(width, object)
    if model is not None:
        for i in range(width):
            states[i] = model.begin()
    return states


def step_fresh(
    model: LanguageModel, states: LmStates, fresh: tuple[Ints, Ints], tokens: Ints
) -> NDArray[np.float64]:
    """Steps ``states[fresh]``, in place; what each token adds.

    A call of the model for each token that is new in a hypothesis: a few a frame, most frames are blanks.
    """
    scores = np.zeros(len(tokens))
    for i, (row, place, token) in enumerate(zip(*fresh, tokens.tolist(), strict=True)):
        states[row, place], scores[i] = model.step(states[row, place], token)
    return scores


def finish_all(model: LanguageModel, states: LmStates) -> NDArray[np.float64]:
    """What the end adds to each, [k]."""
    return np.array([model.finish(state) for state in states], np.float64)
