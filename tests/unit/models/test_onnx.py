"""Networks of our own making, and what goes wrong with networks."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from cosyd.errors import InferenceError, ModelDamaged, ModelError, ModelMissing
from cosyd.models.graph import GraphBuilder, read_weights
from cosyd.models.onnx import open_session
from cosyd.models.stop import Stop, Stopped

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def network() -> bytes:
    """x [n, 2] -> x · MATRIX + the row's mean, through a Squeeze for its integer constant."""
    graph = GraphBuilder()
    x = graph.input("x", ["n", 2])
    y = graph.node("MatMul", [x, graph.constant("matrix", MATRIX)], ["product"])
    wide = graph.node("Unsqueeze", [y, graph.constant("axis", np.array([0], np.int64))], ["wide"])
    y = graph.node("Squeeze", [wide, "axis"], ["narrow"])
    y = graph.node("LeakyRelu", [y], ["y"], {"alpha": 0.5})
    graph.output(y, ["n", 3])
    return graph.build("test")


def test_a_built_network_computes_what_numpy_does() -> None:
    x = np.array([[1, -2], [3, 4], [0.5, 0]], np.float32)
    product = x @ MATRIX
    (y,) = open_session(network()).run({"x": x})
    np.testing.assert_allclose(y, np.where(product < 0, product / 2, product), rtol=1e-6)


def test_weights_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(network())
    weights = read_weights(tmp_path / "net.onnx")
    np.testing.assert_array_equal(weights["matrix"], MATRIX)
    np.testing.assert_array_equal(weights["axis"], [0])


def test_weights_of_the_published_file_have_their_shapes(models_dir: Path) -> None:
    weights = read_weights(models_dir / "dtln" / "model_1.onnx")
    assert weights["lstm_4_W"].shape == (1, 512, 257)
    assert weights["dense_2/bias:0"].dtype == np.float32


@pytest.mark.parametrize("keep", [0, 1, 10, 60])
def test_a_truncated_file_is_damaged(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(network()[:keep])
    with pytest.raises(ModelDamaged, match=str(path)):
        read_weights(path)
    with pytest.raises(ModelDamaged, match=r"net\.onnx"):
        open_session(path)


def test_a_missing_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="cosyd models pull"):
        open_session(tmp_path / "none.onnx")


def test_a_run_with_a_wrong_shape_names_network_shape_and_device() -> None:
    net = open_session(network(), name="adder")
    with pytest.raises(InferenceError, match=r"adder failed on CPU with x \[1, 5\]: .+"):
        net.run({"x": np.zeros((1, 5), np.float32)})
    with pytest.raises(InferenceError, match="adder failed"):
        net.run({"z": np.zeros((1, 2), np.float32)})


def test_a_stoppable_run_is_a_run_until_it_is_stopped() -> None:
    net, stop = open_session(network()), Stop()
    x = np.ones((1, 2), np.float32)
    (expected,) = net.run({"x": x})
    with stop.heeded():
        np.testing.assert_array_equal(net.run({"x": x})[0], expected)
        with pytest.raises(InferenceError, match="network failed"):
            net.run({"x": np.zeros((1, 5), np.float32)})
        stop.set()
        with pytest.raises(Stopped):
            net.run({"x": x})
    np.testing.assert_array_equal(net.run({"x": x})[0], expected)


def test_a_run_is_stopped_in_its_middle() -> None:
    """Of a network that would take many seconds."""
    graph = GraphBuilder()
    x = y = graph.input("x", [1024, 1024])
    for layer in range(1_000):
        y = graph.node("MatMul", [y, x], [f"y{layer}"])
    graph.output(y, [1024, 1024])
    net, stop = open_session(graph.build("long")), Stop()
    timer = threading.Timer(0.1, stop.set)
    timer.start()
    with pytest.raises(Stopped), stop.heeded():
        net.run({"x": np.ones((1024, 1024), np.float32)})
    timer.join()


def test_a_provider_that_is_not_there_is_an_error_not_a_fallback() -> None:
    with pytest.raises(ModelError, match="TensorrtExecutionProvider"):
        open_session(network(), providers=["TensorrtExecutionProvider", "CPUExecutionProvider"])


def test_importing_loads_no_inference_library() -> None:
    code = (
        "import sys, cosyd.models.pull, cosyd.models.onnx, cosyd.frontend.factory;"
        "print('onnxruntime' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"
