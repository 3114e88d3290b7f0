"""One body for every engine that the machine has."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import engine_networks as networks
import numpy as np
import pytest
from fake_engine import LARGEST, PROFILES, open_fake

from cosyd.engine.compile import BuildRequest, compile_plan
from cosyd.engine.cuda import CudaMemory
from cosyd.engine.library import TensorRtMissing, load_library
from cosyd.engine.memory import Buffer
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.ort_cuda import CudaProviderMissing, open_ort_cuda
from cosyd.engine.protocol import Engine, Execution
from cosyd.engine.trt import TrtEngine
from cosyd.errors import GpuError, InferenceError, ModelDamaged

TOLERANCE = 1e-5  # float32 against float64, a few dozen additions


@pytest.fixture(scope="module")
def network() -> networks.Recurrent:
    return networks.Recurrent()


def on_the_processor(data: bytes) -> Engine:
    return open_ort_cpu(data, name="test network")


def on_cuda(data: bytes) -> Engine:
    return open_ort_cuda(data, CudaMemory(), name="test network")


def on_tensorrt(data: bytes) -> Engine:
    library, memory = load_library(), CudaMemory()
    plan = compile_plan(BuildRequest("test network", data, PROFILES, target=memory.capability))
    return TrtEngine(library, plan, memory, name="test network", reason="test", stream=memory.stream)


def why_no_cuda() -> str | None:
    try:
        memory = CudaMemory()
        open_ort_cuda(networks.Recurrent().build(), memory).close()
    except (GpuError, CudaProviderMissing) as error:
        return str(error)
    return None


def why_no_tensorrt() -> str | None:
    try:
        return load_library().refuses(CudaMemory().capability)
    except (TensorRtMissing, GpuError) as error:
        return str(error)


ENGINES = {"ort-cpu": on_the_processor, "fake-tensorrt": open_fake}
MISSING = {}
for name, opener, why in (("ort-cuda", on_cuda, why_no_cuda()), ("tensorrt", on_tensorrt, why_no_tensorrt())):
    if why is None:
        ENGINES[name] = opener
    else:
        MISSING[name] = why


@pytest.mark.parametrize("name", MISSING)
def test_every_engine_is_here(name: str) -> None:
    """One line for each whose contract is not checked on this machine."""
    pytest.skip(f"{name}: {MISSING[name]}")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, network: networks.Recurrent) -> Iterator[Engine]:
    with ENGINES[request.param](network.build(kind="test")) as opened:
        yield opened


def prepare(engine: Engine, sizes: dict[str, int]) -> tuple[Execution, Buffer, Buffer]:
    """States and buffers for the largest batch."""
    step = engine.execution()
    for source, target in networks.Recurrent.states.items():
        step.state(source, target, **sizes)
    x = engine.memory.allocate(sizes["N"] * networks.FEATURES * 4)
    y = engine.memory.allocate(sizes["N"] * networks.UNITS * 4)
    step.bind("x", x)
    step.bind("y", y)
    return step, x, y


def random_x(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal((n, networks.FEATURES)).astype(np.float32)


def test_lists_tensors_and_metadata(engine: Engine) -> None:
    assert [str(spec) for spec in engine.inputs] == [
        "float32[N, 6]",
        "float32[N, 4]",
        "float32[2, N, 4]",
        "int64[N]",
    ]
    assert [spec.name for spec in engine.outputs] == ["y", "h_out", "k_out", "seen_out"]
    assert engine.metadata == {"kind": "test"}


@pytest.mark.parametrize("n", [1, 3, 8])
def test_run_equals_the_reference(engine: Engine, network: networks.Recurrent, n: int) -> None:
    rng = np.random.default_rng(n)
    feeds = {"x": random_x(rng, n), **network.zeros(n)}
    for _ in range(5):
        expected, got = network.step(feeds), engine.run(feeds)
        assert got.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, atol=TOLERANCE, err_msg=name)
        feeds = {"x": random_x(rng, n), **{a: got[b] for a, b in network.states.items()}}


def test_run_gives_only_what_is_asked_for(engine: Engine, network: networks.Recurrent) -> None:
    feeds = {"x": np.ones((1, networks.FEATURES), np.float32), **network.zeros(1)}
    assert list(engine.run(feeds, ["y"])) == ["y"]


@pytest.mark.parametrize("n", [1, 3, 8])
def test_states_change_places_over_steps(engine: Engine, network: networks.Recurrent, n: int) -> None:
    rng = np.random.default_rng(n)
    feeds = network.zeros(n)
    step, x, y = prepare(engine, {"N": LARGEST})
    with step:
        step.resize(N=n)
        for _ in range(50):
            values = random_x(rng, n)
            expected = network.step({"x": values, **feeds})
            feeds = {a: expected[b] for a, b in network.states.items()}
            engine.memory.write(x, values, engine.memory.stream)
            step.enqueue(engine.memory.stream)
            got = engine.memory.read(y, (n, networks.UNITS), np.float32, engine.memory.stream)
            np.testing.assert_allclose(got, expected["y"], atol=TOLERANCE)
        seen = engine.memory.read(step.buffer("seen"), (n,), np.int64, engine.memory.stream)
        assert seen.tolist() == [50] * n


def test_a_state_is_swapped_not_copied(engine: Engine) -> None:
    step, _, _ = prepare(engine, {"N": 2})
    with step:
        step.resize(N=2)
        first = step.buffer("h"), step.buffer("h_out")
        step.enqueue(engine.memory.stream)
        assert (step.buffer("h"), step.buffer("h_out")) == first[::-1]
        step.enqueue(engine.memory.stream)
        assert (step.buffer("h"), step.buffer("h_out")) == first


def test_the_batch_may_change_between_steps(engine: Engine, network: networks.Recurrent) -> None:
    """With the states written anew, as whoever gathers rows does."""
    rng = np.random.default_rng(0)
    step, x, y = prepare(engine, {"N": LARGEST})
    with step:
        for n in (1, 8, 3, 3, 7, 1):
            step.resize(N=n)
            values, states = random_x(rng, n), network.zeros(n)
            states["h"] += rng.standard_normal(states["h"].shape).astype(np.float32)
            engine.memory.write(x, values, engine.memory.stream)
            for name, value in states.items():
                engine.memory.write(step.buffer(name), value, engine.memory.stream)
            step.enqueue(engine.memory.stream)
            got = engine.memory.read(y, (n, networks.UNITS), np.float32, engine.memory.stream)
            np.testing.assert_allclose(got, network.step({"x": values, **states})["y"], atol=TOLERANCE)


def test_two_executions_do_not_know_each_other(engine: Engine, network: networks.Recurrent) -> None:
    (one, x1, y1), (two, x2, y2) = prepare(engine, {"N": 1}), prepare(engine, {"N": 1})
    with one, two:
        values = np.ones((1, networks.FEATURES), np.float32)
        for step, x in ((one, x1), (two, x2)):
            step.resize(N=1)
            engine.memory.write(x, values, engine.memory.stream)
        for _ in range(3):
            one.enqueue(engine.memory.stream)
        two.enqueue(engine.memory.stream)
        first = network.step({"x": values, **network.zeros(1)})["y"]
        np.testing.assert_allclose(
            engine.memory.read(y2, first.shape, np.float32, engine.memory.stream), first, atol=TOLERANCE
        )
        assert engine.memory.read(one.buffer("seen"), (1,), np.int64, engine.memory.stream)[0] == 3
        assert not np.allclose(engine.memory.read(y1, first.shape, np.float32, engine.memory.stream), first)


def test_wrong_feeds_are_told_in_one_line(engine: Engine, network: networks.Recurrent) -> None:
    good = {"x": np.ones((2, networks.FEATURES), np.float32), **network.zeros(2)}
    cases = {
        "missing x": {k: v for k, v in good.items() if k != "x"},
        "unknown z": {**good, "z": good["x"]},
        "x is float64": {**good, "x": good["x"].astype(float)},
        r"x is float32\[2, 5\]": {**good, "x": good["x"][:, :5]},
    }
    for message, feeds in cases.items():
        with pytest.raises(InferenceError, match=message) as caught:
            engine.run(feeds)
        assert "\n" not in str(caught.value)


def test_wrong_bindings_are_told(engine: Engine) -> None:
    step, x, _ = prepare(engine, {"N": 2})
    with step:
        for message, action in {
            "no tensor 'z'": lambda: step.bind("z", x),
            "no free axis T": lambda: step.resize(T=1),
            "its buffer has": lambda: step.resize(N=3),
            "from an output to an input": lambda: step.state("y", "h", N=1),
        }.items():
            with pytest.raises(InferenceError, match=message):
                action()
    with engine.execution() as bare, pytest.raises(InferenceError, match="nothing is bound to x"):
        bare.enqueue(engine.memory.stream)


def test_a_step_without_sizes_is_refused(engine: Engine) -> None:
    step, _, _ = prepare(engine, {"N": 2})
    with step, pytest.raises(InferenceError, match="no size given for N"):
        step.enqueue(engine.memory.stream)


def test_closed_is_closed(engine: Engine, network: networks.Recurrent) -> None:
    step, _, _ = prepare(engine, {"N": 1})
    step.close()
    step.close()
    with pytest.raises(InferenceError, match="closed"):
        step.enqueue(engine.memory.stream)
    engine.close()
    engine.close()
    with pytest.raises(InferenceError, match="closed"):
        engine.run({"x": np.ones((1, networks.FEATURES), np.float32), **network.zeros(1)})


def test_a_damaged_file_is_named() -> None:
    with pytest.raises(ModelDamaged, match="broken"):
        open_ort_cpu(b"no network", name="broken")


@pytest.mark.parametrize("usable", [True, False])
def test_what_lies_in_memory_that_a_fault_took_is_not_given_back(
    network: networks.Recurrent, monkeypatch: pytest.MonkeyPatch, usable: bool
) -> None:
    """ONNX Runtime would end the process, and with it every stream that goes on on the processor."""
    engine = open_ort_cpu(network.build(), name="test network")
    session = weakref.ref(engine._open().session)
    monkeypatch.setattr(type(engine.memory), "usable", usable)
    engine.close()
    gc.collect()
    assert (session() is None) == usable
