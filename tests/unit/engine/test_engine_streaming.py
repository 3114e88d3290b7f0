"""A streaming zipformer 2, whose states have their batch axis in different places, over TensorRT's API.

Field case 24: the batch axis differs from state to state.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_engine import LIBRARIES

from cosyd.engine.compile import BuildRequest, compile_plan
from cosyd.engine.library import RTX, TensorRtMissing, load_library
from cosyd.engine.memory import HostMemory
from cosyd.engine.network import Network, for_streams
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.trt import TrtEngine

sys.path.append(str(Path(__file__).resolve().parents[1] / "asr" / "streaming"))

from streaming_models import save_zipformer2_ctc

MOST, CHUNKS = 8, 50


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    folder = save_zipformer2_ctc(tmp_path_factory.mktemp("zipformer2"))
    return for_streams(next(folder.glob("ctc-*.onnx")), MOST)


@pytest.fixture(scope="module")
def engine(network: Network) -> Iterator[TrtEngine]:
    plan = compile_plan(BuildRequest(network.name, network.onnx(), network.profiles, libraries=LIBRARIES))
    library = load_library(LIBRARIES)
    with TrtEngine(library, plan, HostMemory(), name=network.name, reason="test") as opened:
        yield opened


def test_the_states_do_differ_in_their_batch_axis(engine: TrtEngine) -> None:
    axes = {spec.shape.index(spec.symbols[0]) for spec in engine.inputs if spec.symbols}
    assert axes == {0, 1}
    assert engine.metadata["model_type"] == "zipformer2"


@pytest.mark.parametrize("n", [1, 3, 8])
def test_fifty_chunks_give_the_same_tokens(engine: TrtEngine, network: Network, n: int) -> None:
    rng, memory = np.random.default_rng(n), engine.memory
    (axis,) = {axis for spec in engine.inputs for axis in spec.symbols}
    sizes = {axis: MOST}
    states = {spec.name: f"new_{spec.name}" for spec in engine.inputs if spec.name != "x"}
    with open_ort_cpu(network.model, name="reference") as reference, engine.execution() as step:
        for source, target in states.items():
            step.state(source, target, **sizes)
        specs = {spec.name: spec for spec in (*engine.inputs, *engine.outputs)}
        free = _free(specs, states)
        bound = {name: memory.allocate(specs[name].nbytes({**sizes, **free})) for name in ("x", "log_probs")}
        for name, buffer in bound.items():
            step.bind(name, buffer)
        step.resize(**{axis: n}, **free)
        shapes = {name: specs[name].sized({axis: n, **free}) for name in bound}
        fed: dict[str, Any] = {
            name: np.zeros(specs[name].sized({axis: n}), specs[name].dtype) for name in states
        }
        for _ in range(CHUNKS):
            x = rng.standard_normal(shapes["x"]).astype(np.float32)
            expected = reference.run({"x": x, **fed})
            fed = {name: expected[target] for name, target in states.items()}
            memory.write(bound["x"], x)
            step.enqueue()
            got = memory.read(bound["log_probs"], shapes["log_probs"], np.float32)
            np.testing.assert_allclose(got, expected["log_probs"], atol=1e-3)
            np.testing.assert_array_equal(got.argmax(-1), expected["log_probs"].argmax(-1))


def _free(specs: dict[str, Any], states: dict[str, str]) -> dict[str, int]:
    """Axes that the file leaves open although they never change: the output's frames."""
    inputs = {axis for name in (*states, "x") for axis in specs[name].symbols}
    return {axis: 8 for axis in specs["log_probs"].symbols if axis not in inputs}


def test_tensorrt_rtx_compiles_it(network: Network) -> None:
    try:
        load_library(RTX)
    except TensorRtMissing as error:
        pytest.skip(str(error))
    request = BuildRequest(network.name, network.onnx(), network.profiles, target=(8, 9), libraries=RTX)
    assert compile_plan(request).code
