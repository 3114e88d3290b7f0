"""What the recogniser tells of its backends and of the GPU, on its way to state messages and metrics."""

from __future__ import annotations

import pytest
from pipeline_fakes import START, running, tone
from prometheus_client import generate_latest

from cosyd.config.schema import SourceConfig
from cosyd.publish import messages
from cosyd.ring import RingWriter
from cosyd.runtime.board import Board
from cosyd.runtime.metrics import Metrics
from cosyd.spec import AudioSpec, SampleFormat
from cosyd.types import Backend, GpuUsage

GPU = {"vad": Backend("cuda", "a GPU, own kernels")}
CPU = {"vad": Backend("onnxruntime CPU", "the GPU failed: it is gone")}
SPEC = AudioSpec(16_000, 1, SampleFormat.S16)


@pytest.fixture
def published():
    return []


@pytest.fixture
def board(published):
    board = Board(published.append, lambda name: None, "some-model")
    board.backends = {**GPU, "asr": Backend("onnxruntime CPU", "a model")}
    return board


def states(published):
    return [message for message in published if isinstance(message, messages.State)]


def test_a_stage_that_runs_as_all_others_is_not_told_again(board, published):
    record = board.add(SourceConfig(name="mic"))
    board.runs_on(record, GPU)
    board.runs_on(record, GPU)
    board.runs_on(record, {})
    assert len(states(published)) == 1
    assert record.backends == GPU


def test_a_source_that_moves_to_the_cpu_says_so_with_the_reason(board, published):
    record = board.add(SourceConfig(name="mic"))
    other = board.add(SourceConfig(name="other"))
    board.runs_on(record, GPU)
    board.runs_on(other, GPU)
    board.runs_on(record, CPU)
    board.runs_on(record, CPU)
    told = [state for state in states(published) if state.source == "mic"]
    assert len(told) == 2
    assert told[-1].backends["vad"] == messages.Backend("onnxruntime CPU", "the GPU failed: it is gone")
    assert told[-1].backends["asr"].name == "onnxruntime CPU"
    board.announce(other)
    assert states(published)[-1].backends["vad"].name == "cuda"


def test_a_source_that_never_ran_on_the_gpu_is_told_at_once(board, published):
    record = board.add(SourceConfig(name="mic"))
    board.runs_on(record, CPU)
    assert states(published)[-1].backends["vad"].reason == "the GPU failed: it is gone"


def exposed(metrics):
    lines = generate_latest(metrics.registry).decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_memory_of_the_gpu_is_measured():
    metrics = Metrics()
    usage = GpuUsage(10, 20, 30, 5, 1, 400, 1000, 2, load=0.25, moved={"memory": 3})
    metrics.gpu(usage)
    found = exposed(metrics)
    named = {
        name.removeprefix("cosyd_gpu_"): float(value) for name, value in found.items() if "_gpu_" in name
    }
    assert named == {
        "memory_used_bytes": 10,
        "memory_reserved_bytes": 20,
        "memory_peak_bytes": 30,
        "memory_device_used_bytes": 400,
        "memory_device_total_bytes": 1000,
        "load_ratio": 0.25,
        "memory_fallbacks_total": 2,
        'streams_moved_total{cause="memory"}': 3,
    }


def test_the_backend_of_each_stage_is_an_info_metric():
    metrics = Metrics()
    metrics.runs_on("mic", GPU)
    metrics.runs_on("mic", GPU)
    metrics.runs_on("other", GPU)
    metrics.runs_on("mic", CPU)
    told = [name for name in exposed(metrics) if name.startswith("cosyd_backend_info")]
    assert told == [
        'cosyd_backend_info{backend="cuda",source="other",stage="vad"}',
        'cosyd_backend_info{backend="onnxruntime CPU",source="mic",stage="vad"}',
    ]
    metrics.forget("mic")
    assert not any('"mic"' in name for name in exposed(metrics))


def test_progress_says_what_each_source_runs_on(tmp_path):
    path = tmp_path / "ring"
    with running() as run, RingWriter.open(path, SPEC, 10.0) as writer:
        run.add(path, START)
        assert run.pipeline.progress().sources["talk"].backends == {}
        writer.write(tone(0.2, 16_000))
        run.pipeline.turn(0.01)
        progress = run.pipeline.progress()
        assert progress.sources["talk"].backends == progress.backends == {"vad": Backend("rule", "a test")}
