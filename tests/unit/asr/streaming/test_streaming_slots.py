"""States in slots: whatever the batches, each stream gets its own back."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.asr.streaming.slots import SlotStates
from cosyd.asr.streaming.spec import StateSpec

FLOAT, INT = np.dtype(np.float32), np.dtype(np.int64)
STATES = (
    StateSpec("a", "new_a", (1, 3), 0, FLOAT),
    StateSpec("b", "new_b", (2, 1, 4), 1, FLOAT),
    StateSpec("c", "new_c", (2, 5, 1), 2, FLOAT),
    StateSpec("n", "new_n", (1,), 0, INT),
)
CAPACITY = 5
BATCHES = st.lists(st.permutations(range(CAPACITY)).flatmap(lambda p: st.integers(1, 5).map(lambda n: p[:n])))


@given(BATCHES, st.sets(st.integers(0, 40)))
@settings(max_examples=60, deadline=None)
def test_each_stream_gets_its_own_states_back(batches: list[list[int]], resets: set[int]) -> None:
    """A step adds slot + 1 to each state of its stream; a reset begins again at zero."""
    slots = SlotStates(STATES, CAPACITY)
    expected = np.zeros(CAPACITY)
    for turn, batch in enumerate(batches):
        if turn in resets:
            slots.reset(batch[0])
            expected[batch[0]] = 0
        given_states = slots.gather(batch)
        outputs = {}
        for state in STATES:
            values = given_states[state.source]
            assert state.axis is not None
            rows = np.moveaxis(values, state.axis, 0)
            assert rows.shape[0] == len(batch)
            for row, slot in zip(rows, batch, strict=True):
                np.testing.assert_array_equal(row, expected[slot])
            shape = [1] * values.ndim
            shape[state.axis] = len(batch)
            steps = np.array([slot + 1 for slot in batch], state.dtype).reshape(shape)
            outputs[state.target] = values + steps
        slots.put(batch, outputs)
        for slot in batch:
            expected[slot] += slot + 1


def test_the_same_batch_is_not_copied() -> None:
    slots = SlotStates(STATES, CAPACITY)
    first = slots.gather([1, 3])
    outputs = {state.target: first[state.source] + 1 for state in STATES}
    slots.put([1, 3], outputs)
    again = slots.gather([1, 3])
    assert all(again[state.source] is outputs[state.target] for state in STATES)


def test_a_tensor_without_a_batch_axis_is_one_stream_s_alone() -> None:
    slots = SlotStates([StateSpec("k", "new_k", (2, 3), None, FLOAT)], 3)
    for slot in (0, 1, 0, 2):
        value = slots.gather([slot])["k"]
        assert value.shape == (2, 3)
        slots.put([slot], {"new_k": value + slot + 1})
    assert [slots.gather([slot])["k"][0, 0] for slot in range(3)] == [2, 2, 3]
