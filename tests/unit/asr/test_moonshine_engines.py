"""Where Moonshine's networks run, and that no request is lost when a GPU fails: with scripted networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosyd.asr import moonshine_engines
from cosyd.asr.moonshine_engines import open_networks, why_on_processor
from cosyd.asr.moonshine_healing import HealingNetworks
from cosyd.config.schema import GpuConfig
from cosyd.engine.tensors import Misuse
from cosyd.errors import GpuError, InferenceError, ModelDamaged
from cosyd.types import Backend

AUDIO = np.zeros(16_000, np.float32)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Part:
    """One engine. ``there``: on the GPU, and not on the processor for now."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.memory = type("Memory", (), {"device": "cuda"})()
        self.looks = 0

    @property
    def current(self) -> Any:
        memory = type("Memory", (), {"device": "cuda" if self._gpu.compiled else "cpu"})()
        return type("Engine", (), {"memory": memory})()

    def look(self) -> None:
        self.looks += 1


class Gpu:
    """What the GPU does: ``fault`` is raised by whatever asks it; ``opens``: networks can be opened."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.once = False
        self.opens, self.compiled = True, True
        self.opened = self.closed = 0

    def open(self) -> OnGpu:
        if not self.opens:
            raise ModelDamaged("the plan cannot be loaded: injected")
        self.opened += 1
        return OnGpu(self)


class OnGpu:
    attention = True

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.engines = (Part(gpu),)
        self.backend = Backend("TensorRT 10.5", "fp32" if gpu.compiled else "TensorRT is being compiled for")

    def listen(self, audio: Any) -> str:
        if self._gpu.fault is not None:
            fault = self._gpu.fault
            if self._gpu.once:
                self._gpu.fault = None
            raise fault
        return "gpu"

    def close(self) -> None:
        self._gpu.closed += 1


class OnHost:
    attention = True
    backend = Backend("cpu", "int8 networks")
    closed = False

    def listen(self, audio: Any) -> str:
        return "host"

    def close(self) -> None:
        self.closed = True


class Asked:
    """A revival that answers when it is told to."""

    def __init__(self) -> None:
        self.failures, self.answers = 0, False

    def failed(self) -> None:
        self.failures += 1

    def poll(self) -> bool:
        return self.answers

    def close(self) -> None:
        pass


class Bench:
    def __init__(self, measure: Any = None) -> None:
        self.gpu, self.clock, self.revival = Gpu(), Clock(), Asked()
        self.renewed: list[str] = []
        self.networks = HealingNetworks(
            self.gpu.open(),  # type: ignore[arg-type]
            self.gpu.open,  # type: ignore[arg-type]
            OnHost,  # type: ignore[arg-type]
            self.revival,
            self.renewed.append,
            self.clock,
            measure,
        )

    def ask(self) -> str:
        return self.networks.guarded(lambda: self.networks.listen(AUDIO))


def test_it_runs_on_the_gpu_and_says_so() -> None:
    bench = Bench()
    assert bench.ask() == "gpu"
    assert bench.networks.backend == Backend("TensorRT 10.5", "fp32")


def test_one_fault_is_healed_by_opening_the_networks_again() -> None:
    bench = Bench()
    bench.gpu.fault, bench.gpu.once = InferenceError("a step failed: injected"), True
    assert bench.ask() == "gpu"
    assert (bench.gpu.opened, bench.gpu.closed, bench.networks.faults) == (2, 1, 1)
    assert bench.networks.backend.name == "TensorRT 10.5"


@pytest.mark.parametrize("error", [InferenceError("injected"), GpuError("injected")])
def test_while_the_gpu_fails_the_processor_answers_and_it_is_back_within_30_s(error: Exception) -> None:
    bench = Bench()
    bench.gpu.fault, bench.gpu.opens = error, False
    assert [bench.ask() for _ in range(3)] == ["host"] * 3
    assert bench.networks.backend == Backend("cpu", "int8 networks; the GPU failed: injected")
    for _ in range(60):  # a minute of trouble
        bench.clock.now += 1
        assert bench.ask() == "host"
    bench.gpu.fault, bench.gpu.opens = None, True
    began = bench.clock.now
    while bench.ask() == "host":
        bench.clock.now += 1
    assert bench.clock.now - began < 30
    assert bench.networks.backend.name == "TensorRT 10.5"


def test_a_gpu_that_opens_and_fails_again_is_no_storm() -> None:
    bench = Bench()
    bench.gpu.fault = InferenceError("injected")
    for _ in range(600):
        assert bench.ask() == "host"
        bench.clock.now += 0.1
    assert bench.gpu.opened < 25


def test_a_mistake_costs_one_request_and_no_network() -> None:
    """Audio longer than the networks were compiled for."""
    bench = Bench()
    bench.gpu.fault, bench.gpu.once = Misuse("compiled for less"), True
    assert [bench.ask(), bench.ask()] == ["host", "gpu"]
    assert (bench.gpu.opened, bench.networks.faults) == (1, 0)


def test_while_tensorrt_compiles_the_processor_answers() -> None:
    bench = Bench()
    bench.gpu.compiled = False
    assert bench.ask() == "host"
    bench.gpu.compiled = True
    assert bench.ask() == "gpu"


def test_a_gpu_that_is_slower_than_the_processor_is_not_used() -> None:
    timed: list[str] = []

    def measure(networks: Any) -> float:
        timed.append(networks.listen(AUDIO))
        return {"gpu": slow, "host": 0.040}[timed[-1]]

    slow = 0.055
    bench = Bench(measure)
    assert [bench.ask() for _ in range(3)] == ["host"] * 3
    reason = "int8 networks; the GPU is slower here: 55 ms where the CPU takes 40"
    assert bench.networks.backend == Backend("cpu", reason)
    assert (timed, bench.gpu.closed) == (["gpu", "host"], 1)
    bench.clock.now += 1_000
    assert (bench.ask(), bench.gpu.opened) == ("host", 1)

    slow = 0.020
    bench = Bench(measure)
    assert [bench.ask() for _ in range(3)] == ["gpu"] * 3
    assert bench.networks.backend.name == "TensorRT 10.5"


def test_a_gpu_that_fails_while_it_is_timed_is_a_gpu_that_failed() -> None:
    def measure(networks: Any) -> float:
        raise GpuError("injected")

    bench = Bench(measure)
    assert bench.ask() == "host"
    assert bench.networks.backend.reason == "int8 networks; the GPU failed: injected"
    assert bench.revival.failures == 1
    bench.clock.now += 10
    assert bench.ask() == "gpu"


def test_a_context_that_is_gone_asks_for_a_new_process_once_the_device_answers() -> None:
    bench = Bench()
    bench.gpu.fault, bench.gpu.opens = GpuError("an illegal address"), False
    bench.ask()
    assert bench.revival.failures == 1
    for _ in range(20):
        bench.clock.now += 1
        bench.ask()
    assert bench.renewed == []
    bench.revival.answers = True
    bench.clock.now += 10
    bench.ask()
    assert bench.renewed == ["the GPU answers again after: an illegal address"]


def test_a_fault_of_the_processor_is_the_callers() -> None:
    bench = Bench()
    bench.gpu.fault, bench.gpu.opens = GpuError("injected"), False
    bench.ask()

    def failing() -> str:
        raise InferenceError("the processor's")

    with pytest.raises(InferenceError, match="the processor's"):
        bench.networks.guarded(failing)


def test_both_are_closed() -> None:
    bench = Bench()
    bench.gpu.fault, bench.gpu.once = Misuse("compiled for less"), True
    bench.ask()
    bench.networks.close()
    bench.networks.close()
    assert bench.gpu.closed == 1
    assert bench.networks._host is not None and bench.networks._host.closed  # type: ignore[attr-defined]


# --- choosing ----------------------------------------------------------------------------------------------


def test_the_configuration_may_say_processor(models_dir: Path, tmp_path: Path) -> None:
    folder = models_dir / "moonshine-tiny-en"
    networks = open_networks(folder, folder.name, GpuConfig(backend="cpu"), tmp_path)
    assert networks.backend == Backend("cpu", "int8 networks, ONNX Runtime; gpu.backend is cpu")
    networks.close()


@pytest.mark.parametrize("backend", ["auto", "cuda"])
def test_without_a_gpu_it_is_the_processor_with_the_reason(
    models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Any
) -> None:
    """Case 36."""
    monkeypatch.setattr(moonshine_engines, "why_on_processor", lambda gpu: "no CUDA provider")
    folder = models_dir / "moonshine-tiny-en"
    networks = open_networks(folder, folder.name, GpuConfig(backend=backend), tmp_path)
    assert networks.backend.reason.endswith("; no CUDA provider")
    networks.close()
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_required_is_not_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(moonshine_engines, "why_on_processor", lambda gpu: "no CUDA provider")
    with pytest.raises(GpuError, match=r"gpu\.require_gpu: tiny cannot run on a GPU: no CUDA provider"):
        open_networks(tmp_path, "tiny", GpuConfig(require_gpu=True), tmp_path)


def test_a_gpu_that_does_not_open_is_the_reason(
    models_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*arguments: object) -> None:
        raise GpuError("no GPU: cuInit failed")

    monkeypatch.setattr(moonshine_engines, "why_on_processor", lambda gpu: "")
    monkeypatch.setattr(moonshine_engines, "open_on_gpu", broken)
    folder = models_dir / "moonshine-tiny-en"
    networks = open_networks(folder, folder.name, GpuConfig(), tmp_path)
    assert networks.backend.reason == "int8 networks, ONNX Runtime; no GPU: cuInit failed"
    networks.close()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Driver:
        def __init__(self, name: str) -> None:
            pass

    monkeypatch.setattr(moonshine_engines.ctypes, "CDLL", Driver)
    monkeypatch.setattr("cosyd.engine.ort_cuda.missing_provider", lambda: "no CUDA provider")
    assert why_on_processor(GpuConfig(engine="onnxruntime")) == "no CUDA provider"
    monkeypatch.setattr("cosyd.engine.ort_cuda.missing_provider", lambda: None)
    assert why_on_processor(GpuConfig()) == ""
