"""GpuFrontEnd against FrontEnd: the same pushes in odd pieces give the same blocks and probabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gpu_feed import Source

pytest.importorskip("pydantic", reason="the configuration needs pydantic")
pytest.importorskip("onnxruntime", reason="the CPU front end needs ONNX Runtime")

from cosyd.config.schema import FrontendConfig
from cosyd.errors import CosydError
from cosyd.frontend.contract import PENDING_BLOCKS, needs_denoiser
from cosyd.frontend.dtln import Dtln
from cosyd.frontend.front_end import FrontEnd
from cosyd.frontend.silero import SileroVad
from cosyd.gpu.driver import Gpu
from cosyd.gpu.front_end import GpuFrontEnd
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.settings import settings_for
from cosyd.gpu.weights import DtlnWeights, VadWeights
from cosyd.spec import AudioSpec, SampleFormat
from cosyd.types import Backend

SLOTS = 4
OWN = Backend("cuda", "own kernels")
Front = FrontEnd | GpuFrontEnd
SOURCES = [
    (48_000, SampleFormat.S16, 2, 1.1),
    (16_000, SampleFormat.F32, 1, 0.9),
    (44_100, SampleFormat.S24, 1, 1.0),
]


def stream_all(
    front: Front, sources: list[Source], seed: int
) -> dict[int, list[tuple[int, np.ndarray, float]]]:
    """Open, push pieces of random size in turn, flush; (clock, block, probability) by slot."""
    rng = np.random.default_rng(seed)
    slots = [front.open(source.spec) for source in sources]
    done, out = [0] * len(sources), {slot: [] for slot in slots}
    for i, source in enumerate(sources):
        front.restart(slots[i], 1000 * i)
        assert source.spec.channels == source.frames.shape[1]
    while any(d < len(s.frames) for d, s in zip(done, sources, strict=True)):
        for i, source in enumerate(sources):
            piece = source.frames[done[i] : done[i] + int(rng.integers(1, 3000))]
            if len(piece):
                done[i] += front.push(slots[i], piece, 1000 * i + done[i])
        collect(front, out)
    for slot in slots:
        front.flush(slot)
    collect(front, out)
    for slot in slots:
        front.close(slot)
        front.close(slot)
    return out


def collect(front: Front, out: dict[int, list[tuple[int, np.ndarray, float]]]) -> None:
    while (batch := front.step()) is not None:
        for slot, sample, block, prob in zip(
            batch.slots, batch.samples, batch.asr, batch.vad_prob, strict=True
        ):
            out[int(slot)].append((int(sample), block.copy(), float(prob)))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"asr_input": "denoised", "vad_input": "denoised"},
        {"asr_input": "raw"},
        {"denoise": "off", "remove_dc": False},
    ],
    ids=["blend", "denoised", "raw", "off"],
)
def test_same_results_as_on_the_cpu(
    gpu: Gpu,
    network_files: dict[str, Path],
    vad_weights: VadWeights,
    dtln_weights: DtlnWeights,
    options: dict[str, object],
) -> None:
    config = FrontendConfig(max_streams=SLOTS, denoise_rests=False, **options)
    sources = [Source.make(i + 3, *kind) for i, kind in enumerate(SOURCES)]
    denoiser = (
        Dtln(network_files["dtln_1"], network_files["dtln_2"], SLOTS) if needs_denoiser(config) else None
    )
    expected = stream_all(
        FrontEnd(config, SileroVad(network_files["vad"], SLOTS), denoiser, SLOTS), sources, 1
    )
    settings = settings_for(config)
    weights = dtln_weights if settings.denoise else None
    with Pipeline(gpu, settings, vad_weights, weights) as pipeline, GpuFrontEnd(pipeline, OWN) as front:
        pipeline.warm_up()
        for seed in (2, 3):  # the second round finds used slots
            got = stream_all(front, sources, seed)
            for slot, blocks in expected.items():
                assert [b[0] for b in got[slot]] == [b[0] for b in blocks]
                for (_, a, p), (_, b, q) in zip(got[slot], blocks, strict=True):
                    np.testing.assert_allclose(a, b, atol=1e-4)
                    assert p == pytest.approx(q, abs=1e-4)


def test_limits_are_told(gpu: Gpu, vad_weights: VadWeights) -> None:
    config = FrontendConfig(max_streams=1, denoise="off")
    with (
        Pipeline(gpu, settings_for(config), vad_weights, None) as pipeline,
        GpuFrontEnd(pipeline, OWN) as front,
    ):
        with pytest.raises(CosydError, match="wider"):
            front.open(AudioSpec(48_000, 8, SampleFormat.S32))
        with pytest.raises(CosydError, match="12345"):
            front.open(AudioSpec(12_345, 1, SampleFormat.S16))
        slot = front.open(AudioSpec(48_000, 1, SampleFormat.S16))
        with pytest.raises(CosydError, match="max_streams"):
            front.open(AudioSpec(48_000, 1, SampleFormat.S16))
        frames = np.zeros((400_000, 1), np.int16)
        taken = front.push(slot, frames, 0)
        assert PENDING_BLOCKS * 1536 <= taken < (PENDING_BLOCKS + 1) * 1536 + 2000, "no more than fits"
        while front.step() is not None:
            pass
        assert front.push(slot, frames[taken:], taken) > 0
        assert "cuda" in front.backends["vad"].name
