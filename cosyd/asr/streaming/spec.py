"""What the engine must know of a streaming encoder, whatever its family: a value, made once from metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.features import FeatureSpec

Array = NDArray[Any]
# Steps each stream of a batch has done -> further inputs of the network, by name, for that batch.
Extras = Callable[[NDArray[np.int64]], Mapping[str, Array]]


@dataclass(frozen=True)
class StateSpec:
    """One cached tensor. ``shape`` has the batch axis, with length 1, at ``axis``.

    ``axis`` is None for a tensor that has no batch axis; a network with such a state takes one stream at a
    time. The output ``target`` becomes the input ``source`` of the next step.
    """

    source: str
    target: str
    shape: tuple[int, ...]
    axis: int | None
    dtype: np.dtype[Any]

    def __post_init__(self) -> None:
        if self.axis is not None and self.shape[self.axis] != 1:
            raise ValueError(f"{self.source}: shape {self.shape} has no batch axis {self.axis}")


def no_extras(steps: NDArray[np.int64]) -> Mapping[str, Array]:
    return {}


@dataclass(frozen=True)
class EncoderSpec:
    """One step takes ``window`` feature frames [N, window, bins] as input ``x`` and moves on by ``shift``.

    ``output`` is [N, frames, D]: D log-probabilities of a CTC model, or what a transducer's joiner takes.
    Each of its frames stands for ``subsampling`` feature frames. ``channels_first``: x is [N, bins, window].
    ``strict``: a step begins only when more than ``window`` frames are there, as sherpa-onnx does.
    """

    family: str
    window: int
    shift: int
    feature: FeatureSpec
    x: str
    output: str
    states: tuple[StateSpec, ...]
    extras: Extras = no_extras
    subsampling: int = 4
    channels_first: bool = False
    strict: bool = True

    @property
    def batchable(self) -> bool:
        return all(state.axis is not None for state in self.states)

    @property
    def frame_s(self) -> float:
        """Seconds that one output frame stands for."""
        return self.subsampling * self.feature.shift_s

    def tail_samples(self, samples: int) -> int:
        """Silence to add after ``samples`` so that the last of them are inside a full step's *shift*.

        A frame counts as heard when the step that it belongs to has run, with all the look-ahead the network
        takes; what is cut at the end of a window has been seen, but not with its right context.
        """
        frames = self.feature.frames(samples)
        steps = max(1, -(-frames // self.shift))
        needed = (steps - 1) * self.shift + self.window + self.strict
        return max(0, self.feature.samples_for(needed) - samples)
