"""Which engine is chosen for a network, and what it does when TensorRT fails: with the fake library.

Field case 25: a build that is killed costs one line, and the processor serves.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import engine_networks as networks
import numpy as np
import pytest
from fake_engine import LIBRARIES, PROFILES
from test_engine_precision import SPEECH, small_network, write_wav
from test_engine_precision import golden as small_golden

from cosyd.config.schema import GpuConfig
from cosyd.engine.choose import Machine, choose_engine
from cosyd.engine.golden import Close
from cosyd.engine.library import load_library
from cosyd.engine.managed import ManagedEngine
from cosyd.engine.memory import HostMemory
from cosyd.engine.network import Network
from cosyd.engine.profiles import Profile
from cosyd.errors import GpuError

NETWORK = networks.Recurrent()
ONE = (Profile.of({"n": (1, 1, 4)}),)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Any:
    yield
    assert multiprocessing.active_children() == []


def machine(**changes: Any) -> Machine:
    there = Machine(
        HostMemory(),
        (8, 6),
        library=load_library(LIBRARIES),
        no_cuda_provider="no CUDA here",
        libraries=LIBRARIES,
    )
    return replace(there, **changes)


def recurrent() -> Network:
    return Network("recurrent", NETWORK.build(), profiles=PROFILES)


def small(normalised: bool, *decisions: Any) -> Network:
    return Network("small", small_network(normalised), profiles=ONE, golden=small_golden(*decisions))


def chosen(network: Network, cache: Path, gpu: GpuConfig | None = None, **options: Any) -> Any:
    options.setdefault("machine", machine())
    engine, backend = choose_engine(network, gpu or GpuConfig(), cache, **options)
    engine.close()
    return backend


def test_tensorrt_is_taken_and_its_plan_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = chosen(recurrent(), tmp_path, wait=True)
    assert (backend.name, backend.reason) == ("TensorRT 10.5.0.18", "fp32 on compute capability 8.6")
    monkeypatch.setenv("FAKE_TENSORRT_KILL", "SIGKILL")  # no second build
    assert chosen(recurrent(), tmp_path, wait=True).name == "TensorRT 10.5.0.18"


def test_a_killed_build_leaves_the_processor_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAKE_TENSORRT_KILL", "SIGKILL")
    with caplog.at_level(logging.ERROR):
        first = chosen(recurrent(), tmp_path, wait=True)
        assert len(caplog.records) == 1
        second = chosen(recurrent(), tmp_path, wait=True)
        assert len(caplog.records) == 1
    assert first == second
    assert first.name == "onnxruntime CPU"
    assert "SIGKILL" in first.reason and "no CUDA here" in first.reason


def test_half_precision_that_overflows_gives_way_to_float32_and_says_so(tmp_path: Path) -> None:
    backend = chosen(small(True, Close("y", 0.05)), tmp_path, wait=True)
    assert backend.name == "TensorRT 10.5.0.18"
    assert backend.reason.startswith(
        "fp32 on compute capability 8.6; fp16 is not used: y: values that are not"
    )
    again = chosen(small(True, Close("y", 0.05)), tmp_path, wait=True)
    assert again == backend  # remembered beside the plan


def test_half_precision_that_holds_is_used(tmp_path: Path) -> None:
    backend = chosen(recurrent_with_golden(), tmp_path, wait=True)
    assert backend.reason == "fp16 on compute capability 8.6"


def recurrent_with_golden() -> Network:
    """Its tanh keeps it finite at any amplitude that speech has."""
    from cosyd.engine.golden import Golden
    from cosyd.engine.recipe import Recipe

    recipe = Recipe("x", networks.FEATURES, networks.FEATURES, states=NETWORK.states)
    golden = Golden(recipe, SPEECH[:600], (Close("y", 0.05),))
    return Network("recurrent", NETWORK.build(), profiles=PROFILES, golden=golden)


def test_8_bit_products_need_only_a_folder_of_recordings(tmp_path: Path) -> None:
    (tmp_path / "wav").mkdir()
    write_wav(tmp_path / "wav" / "a.wav", SPEECH, 2)
    gpu = GpuConfig(precision="int8", calibration=str(tmp_path / "wav"))
    network = recurrent_with_golden()
    backend = chosen(network, tmp_path, gpu, wait=True)
    assert (
        backend.reason == "int8 on compute capability 8.6" or "int8 is not used: y is off" in backend.reason
    )
    without = chosen(network, tmp_path / "other", GpuConfig(precision="int8"), wait=True)
    assert "int8 needs gpu.calibration, a folder of WAV files" in without.reason


@pytest.mark.parametrize(
    ("gpu", "there", "reason"),
    [
        ({"backend": "cpu"}, {}, "gpu.backend is cpu"),
        ({}, {"memory": None, "no_gpu": "no GPU: none found"}, "no GPU: none found"),
        ({"engine": "onnxruntime"}, {}, "gpu.engine is onnxruntime; no CUDA here"),
        (
            {},
            {"library": None, "no_tensorrt": "tensorrt 8 is too old"},
            "tensorrt 8 is too old; no CUDA here",
        ),
    ],
)
def test_every_way_to_the_processor_has_its_reason(
    tmp_path: Path, gpu: dict[str, Any], there: dict[str, Any], reason: str
) -> None:
    backend = chosen(recurrent(), tmp_path, GpuConfig(**gpu), machine=machine(**there), wait=True)
    assert (backend.name, backend.reason) == ("onnxruntime CPU", reason)


def test_a_network_that_tensorrt_is_not_for_says_why(tmp_path: Path) -> None:
    network = replace(recurrent(), refusal="runs on our own kernels")
    assert chosen(network, tmp_path, wait=True).reason == "runs on our own kernels; no CUDA here"


@pytest.mark.parametrize("gpu", [{"require_gpu": True}, {"backend": "cuda"}])
def test_a_gpu_that_is_demanded_and_not_there_fails_the_start(tmp_path: Path, gpu: dict[str, Any]) -> None:
    nothing = machine(memory=None, no_gpu="no GPU: none found")
    with pytest.raises(GpuError, match="cannot run on a GPU: no GPU: none found"):
        choose_engine(recurrent(), GpuConfig(**gpu), tmp_path, machine=nothing)


def test_a_demanded_gpu_is_waited_for_when_nothing_else_can_use_it(tmp_path: Path) -> None:
    backend = chosen(recurrent(), tmp_path, GpuConfig(require_gpu=True))
    assert backend.name == "TensorRT 10.5.0.18"


def test_streams_run_while_it_is_compiled_and_then_change_over(tmp_path: Path) -> None:
    engine, backend = choose_engine(recurrent(), GpuConfig(), tmp_path, machine=machine())
    assert isinstance(engine, ManagedEngine)
    assert backend.name == "onnxruntime CPU"
    assert "TensorRT is being compiled" in backend.reason
    feeds = {"x": np.ones((2, networks.FEATURES), np.float32), **NETWORK.zeros(2)}
    deadline = time.monotonic() + 100
    with engine:
        while engine.backend.name != "TensorRT 10.5.0.18" and time.monotonic() < deadline:
            expected, got = NETWORK.step(feeds), engine.run(feeds)
            np.testing.assert_allclose(got["y"], expected["y"], atol=1e-4)
            feeds |= {name: got[source] for name, source in NETWORK.states.items()}
            time.sleep(0.02)
        assert engine.backend.name == "TensorRT 10.5.0.18"
        assert int(feeds["seen"][0]) >= 2


def test_closing_while_it_is_compiled_ends_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TENSORRT_KILL", "SIGSTOP")
    engine, _ = choose_engine(recurrent(), GpuConfig(), tmp_path, machine=machine())
    assert len(multiprocessing.active_children()) == 1
    engine.close()


# --- faults of TensorRT ------------------------------------------------------------------------------------


def test_a_fault_of_tensorrt_is_healed_from_the_plan(tmp_path: Path) -> None:
    """The 2nd step fails; then the plan is gone as well, and is compiled while the processor serves."""
    library = load_library(LIBRARIES)
    feeds = {"x": np.ones((1, networks.FEATURES), np.float32), **NETWORK.zeros(1)}
    expected = NETWORK.step(feeds)["y"]
    engine, _ = choose_engine(recurrent(), GpuConfig(), tmp_path, machine=machine(), wait=True)
    assert isinstance(engine, ManagedEngine)
    with engine:
        for plan_is_there, runs_on in ((True, "TensorRT 10.5.0.18"), (False, "onnxruntime CPU")):
            if not plan_is_there:
                next((tmp_path / "trt").glob("*.plan")).unlink()
            library.module.FAIL_STEPS[:] = [library.module.steps() + 1]
            np.testing.assert_allclose(engine.run(feeds)["y"], expected, atol=1e-5)
            assert engine.backend.name == runs_on
        assert "illegal memory access" in engine.backend.reason
        deadline = time.monotonic() + 100
        while engine.backend.name != "TensorRT 10.5.0.18" and time.monotonic() < deadline:
            np.testing.assert_allclose(engine.run(feeds)["y"], expected, atol=1e-5)
            time.sleep(0.02)
        assert engine.backend.name == "TensorRT 10.5.0.18"
        assert engine.faults == 2
