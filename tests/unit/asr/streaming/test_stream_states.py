"""Where the states of streams lie makes no difference: one body for the host's memory and for a GPU's, which
stands here as memory that the engine cannot reach."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streaming_models as small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosyd.asr.streaming.encoder import SlottedEncoder
from cosyd.asr.streaming.families import describe
from cosyd.asr.streaming.metadata import Metadata
from cosyd.asr.streaming.ports import Ports
from cosyd.asr.streaming.slots import LEAST_SEATS, SEATS, SlotStates, batch_sizes
from cosyd.asr.streaming.spec import EncoderSpec
from cosyd.engine.managed import ManagedEngine
from cosyd.engine.memory import HostMemory
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.protocol import Engine
from cosyd.errors import InferenceError

sys.path.append(str(Path(__file__).resolve().parents[2] / "engine"))

from faulty import Faulty, Switch

FAMILIES = (*small.TRANSDUCERS, *small.CTC)
CAPACITY = 5
STEPS = 3  # before anything can differ, states have to have gone round


class FarMemory(HostMemory):
    """Stands for a GPU's."""

    device = "far"


def far(file: Path) -> Engine:
    return ManagedEngine(
        open_ort_cpu(file, name=str(file)), lambda: open_ort_cpu(file, name=str(file)), memory=FarMemory()
    )


PLACES: dict[str, Callable[[Path], Engine]] = {"host": open_ort_cpu, "far": far}


def describe_file(engine: Engine) -> EncoderSpec:
    return describe(Metadata("f", engine.metadata), Ports("f", engine.inputs, engine.outputs))


def encoder_of(folder: Path) -> Path:
    return next(file for file in sorted(folder.glob("*.onnx")) if not file.name.startswith(("dec", "join")))


class Alone:
    """The reference: each stream by itself, its states handed on by hand."""

    def __init__(self, engine: Engine, spec: EncoderSpec) -> None:
        self._engine, self._spec = engine, spec
        self.reset()

    def reset(self) -> None:
        self._steps = 0
        self._states = {s.source: np.zeros(s.shape, s.dtype) for s in self._spec.states}

    def step(self, x: np.ndarray) -> np.ndarray:
        extras = self._spec.extras(np.array([self._steps], np.int64))
        found = self._engine.run({self._spec.x: x[None], **self._states, **extras})
        self._states = {s.source: found[s.target] for s in self._spec.states}
        self._steps += 1
        return found[self._spec.output][0]


class Rig:
    """States under test beside the reference."""

    def __init__(self, engine: Engine, states: SlotStates, spec: EncoderSpec) -> None:
        self.states, self.spec = states, spec
        self._reference = [Alone(engine, spec) for _ in range(CAPACITY)]
        self._done = np.zeros(CAPACITY, np.int64)
        self._rng = np.random.default_rng(1)

    def step(self, slots: list[int]) -> None:
        window = (self.spec.window, self.spec.feature.bins)
        shape = window[::-1] if self.spec.channels_first else window
        x = self._rng.normal(-6, 3, (len(slots), *shape)).astype(np.float32)
        got = self.states.step(slots, x, self._done[slots])
        self._done[slots] += 1
        for row, slot, frames in zip(got, slots, x, strict=True):
            np.testing.assert_allclose(row, self._reference[slot].step(frames), atol=5e-4)

    def reset(self, slot: int) -> None:
        self.states.reset(slot)
        self._done[slot] = 0
        self._reference[slot].reset()


@pytest.fixture(params=PLACES)
def make_rig(request: pytest.FixtureRequest, folder_of: Any) -> Iterator[Callable[[str], Rig]]:
    made: list[Any] = []

    def make(family: str) -> Rig:
        file = encoder_of(folder_of(family))
        engine = PLACES[request.param](file)
        spec = describe_file(engine)
        states = SlotStates(engine, spec, CAPACITY)
        made.extend((states, engine))
        return Rig(open_ort_cpu(file), states, spec)

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_streams_in_changing_company_are_what_they_are_alone(
    family: str, make_rig: Callable[[str], Rig]
) -> None:
    rig = make_rig(family)
    batches = [[0], [0, 1], [0, 1], [4, 2, 0], [1], [3, 0], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [2], [4, 3]]
    for turn, batch in enumerate(batches):
        for slots in [batch] if rig.spec.batchable else [[slot] for slot in batch]:
            rig.step(slots)
        if turn in (3, 7):
            rig.reset(batch[1])


@given(
    st.lists(st.permutations(range(CAPACITY)).flatmap(lambda p: st.integers(1, 5).map(lambda n: p[:n]))),
    st.sets(st.integers(0, 12)),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_batches_and_resets(
    make_rig: Callable[[str], Rig], batches: list[list[int]], resets: set[int]
) -> None:
    rig = make_rig("zipformer2")
    for turn, batch in enumerate(batches[:13]):
        if turn in resets:
            rig.reset(batch[0])
        rig.step(list(batch))


def test_buffers_have_a_bound_and_no_stream_suffers(folder_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many different batches as there can be, with room for few of them."""
    monkeypatch.setattr("cosyd.asr.streaming.slots.LEAST_SEATS", 7)
    monkeypatch.setattr("cosyd.asr.streaming.slots.SEATS", 1)
    file, rng = encoder_of(folder_of("zipformer2")), np.random.default_rng(2)
    with open_ort_cpu(file) as engine:
        spec = describe_file(engine)
        states = SlotStates(engine, spec, CAPACITY)
        rig = Rig(open_ort_cpu(file), states, spec)
        for turn in range(60):
            if turn % 6 == 0:  # rounding errors grow in such a network
                for slot in range(CAPACITY):
                    rig.reset(slot)
            rig.step(rng.permutation(CAPACITY)[: rng.integers(1, CAPACITY + 1)].tolist())
            assert sum(batch.size for batch in states._batches) <= 7
        states.close()


def test_the_same_batches_move_nothing(folder_of: Any) -> None:
    """Three groups of streams that take turns are gathered once each."""
    with open_ort_cpu(encoder_of(folder_of("zipformer2"))) as engine:
        states = SlotStates(engine, describe_file(engine), 6)
        rig = Rig(engine, states, describe_file(engine))
        groups = [[0], [1, 2], [3, 4]]
        for group in groups:
            rig.step(group)
        batches = list(states._batches)
        tables = [len(batch._tables) for batch in batches]
        for group in groups * 3:
            rig.step(group)
        assert sorted(map(id, states._batches)) == sorted(map(id, batches))
        assert [len(batch._tables) for batch in batches] == tables == [1, 1, 1]
        states.close()


def test_on_a_gpu_batches_are_filled_up_to_a_few_sizes(folder_of: Any) -> None:
    assert batch_sizes(1) == (1,)
    assert batch_sizes(5) == (1, 2, 4, 5)
    assert batch_sizes(64) == (1, 2, 4, 8, 16, 32, 64)
    assert all(sum(batch_sizes(n)) <= max(LEAST_SEATS, SEATS * n) for n in range(1, 257))
    with far(encoder_of(folder_of("zipformer2"))) as engine:
        states = SlotStates(engine, describe_file(engine), CAPACITY)
        rig = Rig(open_ort_cpu(encoder_of(folder_of("zipformer2"))), states, describe_file(engine))
        for batch in ([0, 1, 2], [3], [4], [0, 1], [4, 2], [1, 2, 3, 4, 0]):
            rig.step(batch)
        assert sorted(batch.size for batch in states._batches) == [1, 2, 4, 5]
        states.close()


def test_a_step_that_fails_leaves_states_that_lie_in_the_engine(folder_of: Any) -> None:
    file, switch = encoder_of(folder_of("zipformer2")), Switch()
    engine: Engine = Faulty(open_ort_cpu(file), switch)  # type: ignore[assignment]
    spec = describe_file(engine)
    states = SlotStates(engine, spec, CAPACITY)
    rig = Rig(open_ort_cpu(file), states, spec)
    rig.step([0, 1])
    switch.on = True
    zeros = np.zeros((2, spec.window, spec.feature.bins), np.float32)
    for batch in ([0, 1], [1, 2]):
        with pytest.raises(InferenceError):
            states.step(batch, zeros, np.zeros(2, np.int64))
    switch.on = False
    rig.step([0, 1])
    rig.step([2])
    states.close()


def test_all_is_made_ahead_and_given_back(folder_of: Any) -> None:
    with far(encoder_of(folder_of("zipformer2"))) as engine:
        encoder = SlottedEncoder(engine, describe_file(engine), 3)
        encoder.warm_up()
        assert [batch.size for batch in encoder._states._batches] == [1, 2, 3]
        encoder.shut()
        encoder.shut()
        assert isinstance(engine, ManagedEngine)
        assert engine._executions == []
