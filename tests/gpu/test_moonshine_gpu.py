"""Moonshine on a GPU says what it says on the processor; how long a final takes on either.

    COSYD_MODELS_DIR=… PYTHONPATH=. python3 -m pytest -s tests/gpu/test_moonshine_gpu.py

needs a GPU, cuda-bindings, onnx and onnxruntime-gpu, the models moonshine-tiny-en and demo-speech.
COSYD_ENGINE_REPORT names a file for what was measured.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
import time
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cosyd.asr.moonshine import Moonshine
from cosyd.asr.moonshine_engines import open_on_gpu
from cosyd.asr.recognizer import SegmentRequest
from cosyd.config.schema import GpuConfig
from cosyd.engine.cuda import CudaMemory
from cosyd.engine.ort_cuda import missing_provider
from cosyd.frontend.resample import Resampler

RATE = 16_000
PIECE_S = 7.0
MOST_DIFFERENT = 0.03  # of words; activations are not rounded to 8 bits on the GPU
ROUNDS = 5


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    named = os.environ.get("COSYD_MODELS_DIR")
    root = Path(named) if named else request.getfixturevalue("models_dir")
    return Path(root) / "moonshine-tiny-en"


@pytest.fixture(scope="module")
def memory(memory: CudaMemory) -> CudaMemory:
    if (why := missing_provider()) is not None:
        pytest.skip(why)
    return memory


@pytest.fixture(scope="module")
def on_gpu(memory: CudaMemory, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moonshine]:
    cache = tmp_path_factory.mktemp("cache")
    config = GpuConfig(engine="onnxruntime")
    model = Moonshine.load(folder, beam=4, open_networks=lambda path: open_on_gpu(path, config, cache))
    model.warm_up()
    yield model
    model.close()


@pytest.fixture(scope="module")
def on_processor(folder: Path) -> Iterator[Moonshine]:
    model = Moonshine.load(folder, beam=4)
    model.warm_up()
    yield model
    model.close()


@pytest.fixture(scope="module")
def clips(folder: Path) -> list[np.ndarray]:
    """The demonstration's recordings, cut where they are quietest about every seven seconds."""
    paths = sorted((folder.parent / "demo-speech").glob("*.wav"))
    assert paths, f"no recordings in {folder.parent / 'demo-speech'}"
    return [piece for path in paths for piece in cut(read(path))]


def read(path: Path) -> np.ndarray:
    with wave.open(str(path)) as file:
        assert file.getsampwidth() == 2, path
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")[:: file.getnchannels()]
        resampler = Resampler(file.getframerate())
    resampler.push(frames.astype(np.float32) / 32_768)
    resampler.finish(resampler.expected)
    blocks = []
    while (block := resampler.take()) is not None:
        blocks.append(block)
    return np.concatenate(blocks)


def cut(audio: np.ndarray) -> list[np.ndarray]:
    pieces, window = [], RATE // 10
    while audio.size > 1.5 * PIECE_S * RATE:
        near = audio[int((PIECE_S - 2) * RATE) : int((PIECE_S + 2) * RATE)]
        loud = np.convolve(near * near, np.ones(window), "valid")[::window]
        at = int((PIECE_S - 2) * RATE) + int(loud.argmin()) * window + window // 2
        pieces.append(audio[:at])
        audio = audio[at:]
    return [*pieces, audio]


def words(model: Moonshine, clips: list[np.ndarray]) -> list[str]:
    texts = [model.transcribe([SegmentRequest(clip)])[0].text for clip in clips]
    return "".join(c for c in " ".join(texts).lower() if c.isalpha() or c == " ").split()


def test_it_runs_on_the_gpu(on_gpu: Moonshine) -> None:
    assert "cuda" in on_gpu.backend.name.lower(), on_gpu.backend


def test_it_says_the_same(on_gpu: Moonshine, on_processor: Moonshine, clips: list[np.ndarray]) -> None:
    ours, theirs = words(on_gpu, clips), words(on_processor, clips)
    blocks = difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    changed = max(len(ours), len(theirs)) - sum(block.size for block in blocks)
    say(f"\n{len(theirs)} words, {changed} differ\nGPU: {' '.join(ours)}\nCPU: {' '.join(theirs)}")
    assert len(theirs) > 50
    assert changed <= MOST_DIFFERENT * len(theirs)


def test_words_have_their_times(on_gpu: Moonshine, on_processor: Moonshine, clips: list[np.ndarray]) -> None:
    request = SegmentRequest(clips[0], words=True)
    ours, theirs = on_gpu.transcribe([request])[0], on_processor.transcribe([request])[0]
    assert len(ours.words) == len(ours.text.split()) > 0
    if ours.text == theirs.text:
        assert [w.end for w in ours.words] == pytest.approx([w.end for w in theirs.words], abs=0.15)


def test_memory_stays_flat(on_gpu: Moonshine, memory: CudaMemory, clips: list[np.ndarray]) -> None:
    rng = np.random.default_rng(0)

    def some(count: int) -> None:
        for _ in range(count):
            clip = clips[int(rng.integers(len(clips)))]
            on_gpu.transcribe([SegmentRequest(clip[: int(rng.integers(RATE, clip.size))], quick=True)])

    some(40)
    before, _ = memory.used()
    some(160)
    assert memory.used()[0] - before < 64 << 20


def test_how_long_a_final_takes(
    on_gpu: Moonshine, on_processor: Moonshine, memory: CudaMemory, clips: list[np.ndarray]
) -> None:
    """For the record."""
    rows = []
    for seconds in (2, 5, 7):
        pieces = [clip[: seconds * RATE] for clip in clips if clip.size >= seconds * RATE][:6]
        for quick in (True, False):
            times = {"GPU": list[float](), "CPU": list[float]()}
            for _ in range(ROUNDS):
                for piece in pieces:
                    for name, model in (("GPU", on_gpu), ("CPU", on_processor)):
                        began = time.perf_counter()
                        model.transcribe([SegmentRequest(piece, quick=quick, words=not quick)])
                        times[name].append(time.perf_counter() - began)
            gpu, cpu = (1e3 * float(np.median(times[name])) for name in ("GPU", "CPU"))
            kind = "greedy" if quick else "final, beam of 4, word times"
            rows.append({"audio s": seconds, "what": kind, "GPU ms": round(gpu, 1), "CPU ms": round(cpu, 1)})
    say("\n" + "\n".join(str(row) for row in rows))
    target = os.environ.get("COSYD_ENGINE_REPORT")
    if target:
        report = {"gpu": memory.name, "backend": on_gpu.backend.name, "threads": 1, "rows": rows}
        Path(target).write_text(json.dumps(report, indent=1))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
