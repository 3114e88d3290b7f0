"""Engines on a GPU: memory stays flat over many runs, threads and shutdown are clean, steps are timed.

    PYTHONPATH=. python3 -m pytest tests/unit/engine/test_engine_contract.py tests/gpu/test_engines_cuda.py

needs a GPU, cuda-bindings and onnxruntime-gpu; COSYD_ENGINE_REPORT names a file for what was measured.
Field cases 28 and 29: contexts across threads; 10,000 calls, and memory that is not there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "unit" / "engine"))

import engine_networks as networks  # noqa: E402
from faulty import Faulty, Switch  # noqa: E402

from cosyd.engine.cuda import CudaMemory  # noqa: E402
from cosyd.engine.managed import ManagedEngine  # noqa: E402
from cosyd.engine.ort import OrtEngine, open_ort_cpu  # noqa: E402
from cosyd.engine.ort_cuda import CudaProviderMissing, open_ort_cuda  # noqa: E402
from cosyd.errors import GpuError, ModelDamaged  # noqa: E402

RUNS = 10_000
MOST = 64


@pytest.fixture(scope="module")
def engine(memory: CudaMemory) -> Iterator[OrtEngine]:
    try:
        with open_ort_cuda(networks.Recurrent().build(), memory, name="test network") as opened:
            yield opened
    except CudaProviderMissing as error:
        pytest.skip(str(error))


def test_ten_thousand_runs_of_any_batch_leave_memory_flat(engine: OrtEngine, memory: CudaMemory) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        n: {"x": np.ones((n, networks.FEATURES), np.float32), **networks.Recurrent().zeros(n)}
        for n in range(1, 9)
    }
    for n in feeds:
        engine.run(feeds[n])
    before, _ = memory.used()
    for n in rng.integers(1, 9, RUNS):
        engine.run(feeds[int(n)])
    assert memory.used()[0] - before < 8 << 20


def test_memory_that_is_not_there_is_one_clear_error(memory: CudaMemory) -> None:
    with pytest.raises(GpuError, match="cuMemAlloc failed"):
        memory.allocate(1 << 45)


def test_buffers_come_back(memory: CudaMemory) -> None:
    before, _ = memory.used()
    for _ in range(20):
        memory.allocate(1 << 30)
    assert memory.used()[0] - before < 2 << 30


def test_three_threads_share_the_primary_context(memory: CudaMemory, engine: OrtEngine) -> None:
    faults: list[BaseException] = []

    def copy() -> None:
        try:
            buffer = memory.allocate(1 << 20)
            for index in range(1_000):
                memory.write(buffer, np.full(64, index, np.float32), memory.stream)
                assert memory.read(buffer, (64,), np.float32, memory.stream)[0] == index
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            faults.append(error)

    threads = [threading.Thread(target=copy)]
    threads += [threading.Thread(target=copy)]
    for thread in threads:
        thread.start()
    feeds = {"x": np.ones((2, networks.FEATURES), np.float32), **networks.Recurrent().zeros(2)}
    for _ in range(1_000):
        engine.run(feeds)
    for thread in threads:
        thread.join()
    assert faults == []


def test_a_program_that_used_it_in_threads_ends_cleanly(engine: OrtEngine) -> None:
    program = f"""
import sys, threading
sys.path[:0] = [{str(REPOSITORY)!r}, {str(REPOSITORY / "tests/unit/engine")!r}]
import numpy as np, engine_networks as networks
from cosyd.engine.cuda import CudaMemory
from cosyd.engine.ort_cuda import open_ort_cuda
memory = CudaMemory()
buffer = memory.allocate(1 << 20)
engine = open_ort_cuda(networks.Recurrent().build(), memory)
feeds = {{"x": np.ones((1, networks.FEATURES), np.float32), **networks.Recurrent().zeros(1)}}
threads = [threading.Thread(target=lambda: [engine.run(feeds) for _ in range(50)]),
           threading.Thread(target=lambda: [memory.read(buffer, (8,), np.uint8, 0) for _ in range(50)])]
[t.start() for t in threads]; [t.join() for t in threads]
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
    assert "context stack" not in done.stderr


def test_streams_go_on_over_a_fault_on_the_processor_and_come_back(
    memory: CudaMemory, engine: OrtEngine
) -> None:
    """The states are in device memory throughout."""
    network, switch = networks.Recurrent(), Switch()

    def reopen() -> Faulty:
        if switch.on:
            raise ModelDamaged("injected")
        return Faulty(open_ort_cuda(network.build(), memory, name="test network"), switch)

    now = [0.0]
    fallback = lambda: open_ort_cpu(network.build(), name="test network")  # noqa: E731
    with ManagedEngine(reopen(), reopen, fallback, memory=memory, clock=lambda: now[0]) as managed:
        step, stream = managed.execution(), memory.stream
        for source, target in network.states.items():
            step.state(source, target, N=2)
        for name, width in (("x", networks.FEATURES), ("y", networks.UNITS)):
            step.bind(name, memory.allocate(2 * width * 4))
        step.resize(N=2)
        states, ran_on = network.zeros(2), []
        for index in range(30):
            switch.on = 10 <= index < 20
            now[0] = 30.0 * (index // 20)
            x = np.full((2, networks.FEATURES), 0.1 * index, np.float32)
            memory.write(step.buffer("x"), x, stream)
            step.enqueue(stream)
            expected = network.step({"x": x, **states})
            states = {a: expected[b] for a, b in network.states.items()}
            got = memory.read(step.buffer("y"), (2, networks.UNITS), np.float32, stream)
            np.testing.assert_allclose(got, expected["y"], atol=1e-4)
            ran_on.append(managed.current.memory.device)
    assert (ran_on[9], ran_on[15], ran_on[29]) == ("cuda", "cpu", "cuda")


def test_steps_give_what_the_processor_gives(engine: OrtEngine, memory: CudaMemory) -> None:
    """And how long it takes, for the record: the streaming encoder is what a step costs in earnest."""
    report = measure(memory)
    target = os.environ.get("COSYD_ENGINE_REPORT")
    if target:
        Path(target).write_text(json.dumps(report, indent=1))
    assert all(row["largest difference from the processor"] < 1e-3 for row in report["rows"])


def measure(memory: CudaMemory) -> dict[str, object]:
    """Steps of the network named by COSYD_ENGINE_NETWORK, else of the small one, at several batches."""
    named = os.environ.get("COSYD_ENGINE_NETWORK")
    data = Path(named).read_bytes() if named else networks.Recurrent().build()
    rows = []
    with open_ort_cuda(data, memory, name="measured") as cuda, open_ort_cpu(data, threads=4) as cpu:
        free = {axis for spec in (*cuda.inputs, *cuda.outputs) for axis in spec.symbols}
        batch_axis = "batch" if "batch" in free else "N"
        fixed = dict.fromkeys(free - {batch_axis}, 8)
        for n in (1, 8, MOST):
            sizes = {**fixed, batch_axis: n}
            rng = np.random.default_rng(n)
            feeds = {s.name: rng.random(s.sized(sizes)).astype(s.dtype) for s in cuda.inputs}
            expected, stream = cpu.run(feeds), memory.stream
            with cuda.execution() as step:
                for spec in (*cuda.inputs, *cuda.outputs):
                    step.bind(spec.name, memory.allocate(spec.nbytes(sizes)))
                for name, value in feeds.items():
                    memory.write(step.buffer(name), value, stream)
                step.resize(**sizes)
                for _ in range(20):
                    step.enqueue(stream)
                memory.synchronize(stream)
                enqueued, whole = [], []
                for _ in range(200):
                    began = time.perf_counter()
                    step.enqueue(stream)
                    enqueued.append(time.perf_counter() - began)
                    memory.synchronize(stream)
                    whole.append(time.perf_counter() - began)
                off = max(
                    float(
                        np.abs(
                            memory.read(step.buffer(s.name), s.sized(sizes), s.dtype, stream).astype(float)
                            - expected[s.name]
                        ).max()
                    )
                    for s in cuda.outputs
                )
            began = time.perf_counter()
            for _ in range(10):
                cpu.run(feeds)
            rows.append(
                {
                    "batch": n,
                    "enqueue P50 ms": round(1e3 * float(np.median(enqueued)), 3),
                    "step P50 ms": round(1e3 * float(np.median(whole)), 3),
                    "step P99 ms": round(1e3 * float(np.percentile(whole, 99)), 3),
                    "processor, 4 threads, ms": round(100 * (time.perf_counter() - began), 3),
                    "largest difference from the processor": off,
                }
            )
    return {"gpu": memory.name, "network": Path(named).name if named else "test network", "rows": rows}
