"""Feature frames of the front end are an engine's input where they lie: nothing goes through the host.

    COSYD_MODELS_DIR=… PYTHONPATH=. python3 -m pytest tests/gpu/test_handover_gpu.py

needs a GPU, PyCUDA, cuda-bindings and onnxruntime-gpu.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "parity"))

from gpu_feed import Source, _keep_new_frame, answer, join  # noqa: E402

from cosyd.engine.cuda import CudaMemory  # noqa: E402
from cosyd.engine.ort_cuda import missing_provider, open_ort_cuda  # noqa: E402
from cosyd.engine.protocol import Execution  # noqa: E402
from cosyd.errors import GpuError  # noqa: E402
from cosyd.gpu.driver import Gpu  # noqa: E402
from cosyd.gpu.mel import KALDI  # noqa: E402
from cosyd.gpu.pipeline import Pipeline  # noqa: E402
from cosyd.gpu.settings import Settings  # noqa: E402
from cosyd.gpu.weights import read_dtln, read_vad  # noqa: E402
from cosyd.models.graph import GraphBuilder  # noqa: E402

STREAMS, HOPS, OUT = 5, 40, 7


@pytest.fixture
def gpu(tmp_path: Path) -> Iterator[Gpu]:
    named = os.environ.get("COSYD_KERNEL_CACHE")
    opened = Gpu(Path(named) if named else tmp_path)
    try:
        opened.__enter__()
    except GpuError as error:
        pytest.skip(str(error))
    yield opened
    opened.close()


@pytest.fixture
def models(request: pytest.FixtureRequest) -> Path:
    named = os.environ.get("COSYD_MODELS_DIR")
    return Path(named) if named else request.getfixturevalue("models_dir")


def network(weights: np.ndarray) -> bytes:
    """y = x W."""
    graph = GraphBuilder()
    x = graph.input("x", ["n", KALDI.bins])
    y = graph.node("MatMul", [x, graph.constant("w", weights)], ["y"])
    graph.output(y, ["n", OUT])
    return graph.build("features")


def test_an_engine_reads_the_front_end_s_features_in_place(gpu: Gpu, models: Path) -> None:
    if (why := missing_provider()) is not None:
        pytest.skip(why)
    dtln = read_dtln(models / "dtln" / "model_1.onnx", models / "dtln" / "model_2.onnx")
    vad = read_vad(models / "silero-vad-6" / "silero_vad_16k_op15.onnx")
    weights = np.random.default_rng(0).standard_normal((KALDI.bins, OUT)).astype(np.float32) / 10
    memory = CudaMemory()  # the same primary context, a stream of its own
    sources = {slot: Source.make(slot) for slot in range(STREAMS)}
    with (
        Pipeline(gpu, Settings(STREAMS, rates_hz=(16_000,)), vad, dtln) as pipeline,
        open_ort_cuda(network(weights), memory, name="features") as engine,
        engine.execution() as step,
    ):
        join(pipeline, sources)
        step.bind("y", memory.allocate(4 * STREAMS * OUT))
        for _ in range(HOPS):
            hop(pipeline, sources, memory, step)
        for source in sources.values():
            expected = answer(pipeline, source, dtln, vad).features @ weights
            assert len(expected) > 20
            np.testing.assert_allclose(np.array(source.features), expected, atol=5e-3)


def hop(pipeline: Pipeline, sources: dict[int, Source], memory: CudaMemory, step: Execution) -> None:
    """One hop of all streams, and the network over its features; what comes out is kept as the features."""
    room = pipeline.begin(np.array(list(sources), np.intp))
    for row, source in zip(room, sources.values(), strict=True):
        content = np.ascontiguousarray(source.pieces[source.hops]).view(np.uint8).reshape(-1)
        row[: len(content)] = content
        source.hops += 1
    ticket = pipeline.launch()
    with pipeline.lent_features(ticket, memory.stream) as features:
        step.bind("x", features)
        step.resize(n=STREAMS)
        step.enqueue(memory.stream)
    y = memory.read(step.buffer("y"), (STREAMS, OUT), np.float32, memory.stream)
    pipeline.collect(ticket)
    for row, source in enumerate(sources.values()):
        _keep_new_frame(pipeline, source, y[row], KALDI)
