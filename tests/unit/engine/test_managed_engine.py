"""Engines exchanged under running streams: on purpose, after faults, and onto other memory."""

from __future__ import annotations

import logging
from collections.abc import Callable

import engine_networks as networks
import numpy as np
import pytest
from fake_engine import open_fake
from faulty import Faulty, Switch

from cosyd.engine.managed import ManagedEngine
from cosyd.engine.memory import HostMemory
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.protocol import Engine
from cosyd.engine.tensors import Misuse
from cosyd.errors import InferenceError, ModelDamaged

N = 3
NETWORK = networks.Recurrent()


class FarMemory(HostMemory):
    """Stands for a GPU's: an engine on the host must not be given its addresses directly."""

    device = "far"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def open_plain() -> Engine:
    return open_ort_cpu(NETWORK.build(), name="test network")


class Streams:
    """N streams through an engine, beside the same streams through the reference."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rng = np.random.default_rng(1)
        self._expected = NETWORK.zeros(N)
        self.execution = engine.execution()
        for source, target in networks.Recurrent.states.items():
            self.execution.state(source, target, N=N)
        self._x = engine.memory.allocate(N * networks.FEATURES * 4)
        self._y = engine.memory.allocate(N * networks.UNITS * 4)
        self.execution.bind("x", self._x)
        self.execution.bind("y", self._y)
        self.execution.resize(N=N)
        self.steps = 0

    def step(self) -> None:
        """One block of each stream; its result must be what it is without any fault or exchange."""
        x = self._rng.standard_normal((N, networks.FEATURES)).astype(np.float32)
        expected = NETWORK.step({"x": x, **self._expected})
        self._engine.memory.write(self._x, x)
        self.execution.enqueue()
        self._expected = {a: expected[b] for a, b in networks.Recurrent.states.items()}
        got = self._engine.memory.read(self._y, (N, networks.UNITS), np.float32)
        np.testing.assert_allclose(got, expected["y"], atol=1e-5)
        self.steps += 1


def run_steps(streams: Streams, count: int) -> None:
    for _ in range(count):
        streams.step()


def test_an_exchange_drops_no_stream() -> None:
    switches = [Switch(), Switch()]
    with ManagedEngine(Faulty(open_plain(), switches[0]), open_plain) as engine:
        streams, others = Streams(engine), Streams(engine)
        run_steps(streams, 5)
        run_steps(others, 2)
        engine.replace(Faulty(open_plain(), switches[1]))
        run_steps(streams, 5)
        assert switches[0].closed == 0  # the other streams have not moved yet
        run_steps(others, 2)
        assert switches[0].closed == 1
        run_steps(streams, 1)
    assert switches[1].closed == 1


def test_another_network_is_refused_and_nothing_changes() -> None:
    class Other(networks.Recurrent):
        def build(self, **metadata: str) -> bytes:
            return super().build(**metadata).replace(b"h_out", b"g_out")

    with ManagedEngine(open_plain(), open_plain) as engine:
        streams = Streams(engine)
        run_steps(streams, 2)
        with pytest.raises(Misuse, match="other inputs or outputs"):
            engine.replace(open_ort_cpu(Other().build()))
        run_steps(streams, 2)


def managed(
    switch: Switch, clock: Clock, fallback: Callable[[], Engine] | None = open_plain
) -> ManagedEngine:
    def reopen() -> Engine:
        if switch.on:
            raise ModelDamaged("the plan cannot be loaded: injected")
        return Faulty(open_plain(), switch)

    return ManagedEngine(reopen(), reopen, fallback, clock=clock)


def test_one_fault_is_healed_by_loading_the_engine_again(caplog: pytest.LogCaptureFixture) -> None:
    switch = Switch()
    with managed(switch, Clock()) as engine, caplog.at_level(logging.WARNING):
        streams = Streams(engine)
        run_steps(streams, 3)
        switch.once = True
        run_steps(streams, 3)
        assert (switch.opened, engine.faults) == (2, 1)
        assert engine.backend.reason == "ONNX Runtime on the processor"
    assert [record.message.count("injected") for record in caplog.records] == [1]


def test_while_it_cannot_be_loaded_the_fallback_serves_and_it_is_back_within_30_s() -> None:
    switch, clock = Switch(), Clock()
    with managed(switch, clock) as engine:
        streams = Streams(engine)
        run_steps(streams, 3)
        switch.on = True
        for _ in range(600):  # a minute of trouble, ten steps a second
            streams.step()
            clock.now += 0.1
        assert "after a fault" in engine.backend.reason
        tries = engine.faults
        assert tries <= 2  # the fallback serves: no storm
        switch.on = False
        began = clock.now
        while "after a fault" in engine.backend.reason:
            streams.step()
            clock.now += 0.1
        assert clock.now - began < 30
        run_steps(streams, 3)


def test_without_a_fallback_the_fault_is_the_callers() -> None:
    switch = Switch()
    with managed(switch, Clock(), None) as engine:
        streams = Streams(engine)
        switch.on = True
        with pytest.raises(InferenceError, match="injected"):
            streams.step()


def test_without_a_fallback_it_heals_all_the_same() -> None:
    switch, clock = Switch(), Clock()
    with managed(switch, clock, None) as engine:
        streams = Streams(engine)
        for _ in range(5):
            switch.on = True
            with pytest.raises(InferenceError):
                streams.execution.enqueue()
            switch.on = False
            clock.now += 30
        run_steps(streams, 3)


def test_mistakes_of_the_caller_are_no_faults() -> None:
    with ManagedEngine(open_plain(), open_plain) as engine:
        with pytest.raises(Misuse):
            engine.run({})
        assert engine.faults == 0


def test_a_fallback_on_other_memory_gets_copies() -> None:
    switch, clock, far = Switch(), Clock(), FarMemory()

    def reopen() -> Engine:
        if switch.on:
            raise ModelDamaged("injected")
        return Faulty(open_fake(NETWORK.build(), far), switch)

    with ManagedEngine(reopen(), reopen, open_plain, memory=far, clock=clock) as engine:
        streams = Streams(engine)
        run_steps(streams, 3)
        switch.on = True
        run_steps(streams, 3)
        assert engine.current.memory.device == "cpu"
        switch.on = False
        clock.now += 30
        run_steps(streams, 3)
        assert engine.current.memory.device == "far"


def test_warm_up_runs_every_size() -> None:
    with ManagedEngine(open_plain(), open_plain) as engine:
        sizes = []
        engine.current.run = lambda feeds, outputs=None: sizes.append(feeds["x"].shape[0]) or {}  # type: ignore
        engine.warm_up([{"N": 1}, {"N": 8}])
        assert sizes == [1, 8]
