"""A streaming encoder with the states of its streams: features of a batch in, output frames out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.slots import SlotStates
from cosyd.asr.streaming.spec import EncoderSpec
from cosyd.engine.protocol import Engine
from cosyd.errors import InferenceError

Frames = NDArray[np.float32]


class SlottedEncoder:
    """``capacity`` streams at most; borrows the engine. For one thread at a time."""

    def __init__(self, engine: Engine, spec: EncoderSpec, capacity: int) -> None:
        self.spec = spec
        self._name = engine.name
        self._states = SlotStates(engine, spec, capacity)
        self._steps = np.zeros(capacity, np.int64)
        self._free = list(range(capacity - 1, -1, -1))

    def open(self) -> int:
        """A slot in its first state. Raises InferenceError when all are taken."""
        if not self._free:
            raise InferenceError(f"{self._name}: all {len(self._steps)} streams are in use; close one")
        slot = self._free.pop()
        self.reset(slot)
        return slot

    def reset(self, slot: int) -> None:
        self._states.reset(slot)
        self._steps[slot] = 0

    def close(self, slot: int) -> None:
        self._free.append(slot)

    def step(self, slots: Sequence[int], windows: Sequence[Frames]) -> Frames:
        """One step of each of these streams.

        ``windows``: [window, bins] each, of the streams in this order. Returns [N, frames, D] float32.
        Raises InferenceError; the states are then what they were before.
        """
        if len(slots) > 1 and not self.spec.batchable:
            parts = [self.step([slot], [window]) for slot, window in zip(slots, windows, strict=True)]
            return np.concatenate(parts)
        x = windows[0][None] if len(windows) == 1 else np.stack(windows)
        if self.spec.channels_first:
            x = x.transpose(0, 2, 1)
        rows = np.asarray(slots)
        scores = self._states.step(slots, np.ascontiguousarray(x), self._steps[rows])
        self._steps[rows] += 1
        return scores.astype(np.float32, copy=False)

    def warm_up(self) -> None:
        self._states.warm_up()

    def shut(self) -> None:
        """Give back what belongs to the engine; idempotent."""
        self._states.close()
