"""Cached states of many streams, each in a slot, gathered into batches of any composition.

The tensors of a batch stay as the network returned them while the same streams come again in the same order,
which is the rule when streams are live: then a step copies no state at all. Only when a batch is composed
differently are the slots written back and gathered anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.spec import StateSpec

Array = NDArray[Any]


class SlotStates:
    """States for ``capacity`` slots. Slots that a caller does not own are none of its business."""

    def __init__(self, states: Sequence[StateSpec], capacity: int) -> None:
        self._states = tuple(states)
        self._stores = {state.source: _store(state, capacity) for state in states}
        self._batches: dict[tuple[int, ...], dict[str, Array]] = {}  # disjoint: at most one a slot
        self._batch_of: dict[int, tuple[int, ...]] = {}

    def reset(self, slot: int) -> None:
        """All zero, as at the beginning of a stream."""
        self._settle(slot)
        for state in self._states:
            self._stores[state.source][_index(state, slot)] = 0

    def gather(self, slots: Sequence[int]) -> Mapping[str, Array]:
        """Inputs of the network, by name, for these streams in this order."""
        batch = tuple(slots)
        if batch in self._batches:
            return self._batches[batch]
        for slot in batch:
            self._settle(slot)
        if len(batch) == 1:
            return {state.source: self._single(state, batch[0]) for state in self._states}
        rows = np.asarray(batch)
        return {
            state.source: np.take(self._stores[state.source], rows, axis=state.axis) for state in self._states
        }

    def put(self, slots: Sequence[int], outputs: Mapping[str, Array]) -> None:
        """What the network returned for the batch that was gathered last for these streams."""
        batch = tuple(slots)
        if batch not in self._batches:
            for slot in batch:
                self._settle(slot)
                self._batch_of[slot] = batch
        self._batches[batch] = {state.source: outputs[state.target] for state in self._states}

    def _single(self, state: StateSpec, slot: int) -> Array:
        view = self._stores[state.source][_index(state, slot)]
        return np.ascontiguousarray(view if state.axis is None else np.expand_dims(view, state.axis))

    def _settle(self, slot: int) -> None:
        """Write the batch that holds this slot back."""
        batch = self._batch_of.get(slot)
        if batch is None:
            return
        tensors = self._batches.pop(batch)
        for member in batch:
            del self._batch_of[member]
        for state in self._states:
            store, values = self._stores[state.source], tensors[state.source]
            if state.axis is None:
                store[batch[0]] = values
            else:
                store[(slice(None),) * state.axis + (np.asarray(batch),)] = values


def _store(state: StateSpec, capacity: int) -> Array:
    if state.axis is None:
        return np.zeros((capacity, *state.shape), state.dtype)
    shape = [capacity if index == state.axis else length for index, length in enumerate(state.shape)]
    return np.zeros(shape, state.dtype)


def _index(state: StateSpec, slot: int) -> tuple[int | slice, ...]:
    """One slot's part of a store, without the batch axis."""
    return (slice(None),) * (state.axis or 0) + (slot,)
