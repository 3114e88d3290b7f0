"""Is a network in another precision still the same network? Asked after each build, before it is used.

Both it and the network in float32 (ONNX Runtime on the processor) hear the same speech, as it is and 1,000
times as loud: half precision overflows there first. A precision is refused for one value that is not finite,
or one decision that differs: tokens, speech or not, or, where a network decides nothing, values too far off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.protocol import Engine
from cosyd.engine.recipe import Audio, Recipe

Array = NDArray[Any]

GAINS = (1.0, 1_000.0)
Outputs = Sequence[dict[str, Array]]


class Decision(Protocol):
    """What must stay the same."""

    def difference(self, expected: Outputs, got: Outputs) -> str | None:
        """In words; None for none. Both are the outputs of all steps."""
        ...


@dataclass(frozen=True)
class Tokens:
    """CTC: the best tokens of ``output`` [1, frames, vocabulary], repetitions and blanks dropped."""

    output: str
    blank: int = 0

    def difference(self, expected: Outputs, got: Outputs) -> str | None:
        right, wrong = self._read(expected), self._read(got)
        if right == wrong:
            return None
        shorter = min(len(right), len(wrong))
        at = next((i for i in range(shorter) if right[i] != wrong[i]), shorter)
        return f"token {at} of {len(right)} in {self.output} differs"

    def _read(self, steps: Outputs) -> list[int]:
        best = np.concatenate([step[self.output][0].argmax(-1) for step in steps])
        changed = np.concatenate(([True], best[1:] != best[:-1]))
        return [int(token) for token in best[changed] if token != self.blank]


@dataclass(frozen=True)
class Best:
    """An encoder-decoder: the best entry of the last axis of ``output``, at every place, unless the right
    one is ahead of the next by less than ``margin``."""

    output: str
    margin: float = 0.1  # of logits: such a choice is a coin's

    def difference(self, expected: Outputs, got: Outputs) -> str | None:
        for step, (right, wrong) in enumerate(zip(expected, got, strict=True)):
            values = right[self.output]
            second, best = np.partition(values, -2, axis=-1)[..., -2:].transpose(-1, *range(values.ndim - 1))
            differs = values.argmax(-1) != wrong[self.output].argmax(-1)
            if (differs & (best - second > self.margin)).any():
                return f"the best of {self.output} differs in step {step}"
        return None


@dataclass(frozen=True)
class Threshold:
    """A probability: on which side of ``level`` it is, unless the right one is within ``margin`` of it."""

    output: str
    level: float
    margin: float = 0.01

    def difference(self, expected: Outputs, got: Outputs) -> str | None:
        right = np.concatenate([step[self.output].ravel() for step in expected])
        wrong = np.concatenate([step[self.output].ravel() for step in got])
        flipped = ((right >= self.level) != (wrong >= self.level)) & (
            np.abs(right - self.level) > self.margin
        )
        if not flipped.any():
            return None
        return f"{self.output} is on the other side of {self.level} at step {int(flipped.argmax())}"


@dataclass(frozen=True)
class Close:
    """Values: root mean square of the difference, relative to that of the right ones."""

    output: str
    relative: float = 0.01

    def difference(self, expected: Outputs, got: Outputs) -> str | None:
        right = np.concatenate([step[self.output].ravel() for step in expected]).astype(np.float64)
        wrong = np.concatenate([step[self.output].ravel() for step in got]).astype(np.float64)
        off = float(np.sqrt(np.mean((right - wrong) ** 2) / max(float(np.mean(right**2)), 1e-30)))
        return (
            None
            if off <= self.relative
            else f"{self.output} is off by {off:.1%}, at most {self.relative:.1%}"
        )


@dataclass(frozen=True)
class Golden:
    """What to check a network with. The audio is a few seconds of speech, 16 kHz, -1..1."""

    recipe: Recipe
    audio: Audio
    decisions: tuple[Decision, ...]

    def fault(self, candidate: Engine, reference: Engine) -> str | None:
        """Why the candidate must not be used; None if it may."""
        for gain in GAINS:
            loud = "" if gain == 1 else f" at {gain:,.0f} times the amplitude"
            audio = self.audio * np.float32(gain)
            got: list[dict[str, Array]] = []
            for _, outputs in self.recipe.steps(candidate, audio):
                unsound = [name for name, value in outputs.items() if not np.isfinite(value).all()]
                if unsound:
                    return f"{', '.join(unsound)}: values that are not finite in step {len(got)}{loud}"
                got.append(outputs)
            expected = [outputs for _, outputs in self.recipe.steps(reference, audio)]
            for decision in self.decisions:
                difference = decision.difference(expected, got)
                if difference is not None:
                    return f"{difference}{loud}"
        return None
