"""What networks of many streams run on where there is no GPU, and that the machine is looked at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from cosyd.config.schema import GpuConfig
from cosyd.engine import streams
from cosyd.engine.choose import Machine
from cosyd.engine.streams import StreamEngines
from cosyd.errors import GpuError


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """y = x + x."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", [x], [y])
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
        tmp_path / "n.onnx",
    )
    return tmp_path / "n.onnx"


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A machine without a GPU, and how often it was looked at."""
    looks: list[int] = []

    def look_around() -> Machine:
        looks.append(1)
        return Machine(no_gpu="no NVIDIA driver")

    monkeypatch.setattr(streams, "look_around", look_around)
    return looks


def test_without_a_gpu_networks_run_on_the_processor_and_say_why(
    network: Path, looked: list[int], tmp_path: Path
) -> None:
    engines = StreamEngines(GpuConfig(), tmp_path, 8, 1)
    for _ in range(2):
        with engines(network) as engine:
            assert engine.backend.reason.startswith("no NVIDIA driver")
            np.testing.assert_array_equal(
                engine.run({"x": np.ones((2, 3), np.float32)})["y"], np.full((2, 3), 2)
            )
    assert len(looked) == 1


def test_the_configuration_may_say_processor(network: Path, looked: list[int], tmp_path: Path) -> None:
    with StreamEngines(GpuConfig(backend="cpu"), tmp_path, 8, 1)(network) as engine:
        assert "gpu.backend is cpu" in engine.backend.reason
    assert looked == []


def test_a_demanded_gpu_is_not_done_without(network: Path, looked: list[int], tmp_path: Path) -> None:
    with pytest.raises(GpuError, match="no NVIDIA driver"):
        StreamEngines(GpuConfig(require_gpu=True), tmp_path, 8, 1)(network)
