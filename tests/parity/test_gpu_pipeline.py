"""The pipeline on a GPU against float64, for many batch sizes, rates, formats and modes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gpu_feed import Source, answer, join, run, taken

from cosyd.gpu.driver import Gpu
from cosyd.gpu.mel import KALDI, WHISPER
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.reference import signals
from cosyd.gpu.settings import Settings
from cosyd.gpu.streams import HOP_STEP, RATES_HZ
from cosyd.gpu.weights import DtlnWeights, VadWeights
from cosyd.spec import SampleFormat

HOPS = 40


@pytest.mark.parametrize("count", [1, 3, 8, 37, 64, 65, 257, 1000, 2100])
def test_every_batch_size_equals_float64(
    gpu: Gpu, vad_weights: VadWeights, dtln_weights: DtlnWeights, count: int
) -> None:
    kinds = [Source.make(seed) for seed in range(min(count, 5))]
    with Pipeline(gpu, Settings(count, rates_hz=(16_000,)), vad_weights, dtln_weights) as pipeline:
        sources = {
            s: kinds[s] if s < len(kinds) else Source(kinds[0].spec, kinds[s % 5].frames)
            for s in range(count)
        }
        join(pipeline, sources)
        run(pipeline, sources, HOPS)
        for slot in {0, min(2, count - 1), min(4, count - 1), count // 2, count - 1}:
            source = sources[slot]
            expected = answer(pipeline, source, dtln_weights, vad_weights)
            np.testing.assert_allclose(np.concatenate(source.asr), expected.asr, atol=2e-6)
            np.testing.assert_allclose(source.vad, expected.vad[: len(source.vad)], atol=5e-5)
            assert len(source.vad) == (HOPS - 1) // 4
            np.testing.assert_allclose(np.array(source.features), expected.features, atol=1e-3)


def test_every_rate_format_and_channel_map(
    gpu: Gpu, vad_weights: VadWeights, dtln_weights: DtlnWeights
) -> None:
    """All in one batch: 8 rates, 4 formats, 1 to 3 channels, with and without a map."""
    sources = {}
    for i, rate in enumerate(RATES_HZ):
        for j, form in enumerate(SampleFormat):
            channels = 1 + (i + j) % 3
            mapped = (channels - 1,) if j % 2 and channels > 1 else None
            sources[3 * len(sources) % 32] = Source.make(10 * i + j, rate, form, channels, 0.6, mapped)
    settings = Settings(32, channels=3, rates_hz=RATES_HZ, blend=0.5)
    with Pipeline(gpu, settings, vad_weights, dtln_weights) as pipeline:
        join(pipeline, sources)
        run(pipeline, sources, HOPS)
        ring = pipeline.stages.raw.get()
        for slot, source in sources.items():
            expected = answer(pipeline, source, dtln_weights, vad_weights)
            raw = source.samples(settings.lead)
            last = np.arange(len(raw) - 1000, len(raw))
            name = str(source.spec)
            np.testing.assert_allclose(ring[slot][last % 1024], raw[last], atol=2e-6, err_msg=name)
            np.testing.assert_allclose(np.concatenate(source.asr), expected.asr, atol=2e-5, err_msg=name)
            np.testing.assert_allclose(source.vad, expected.vad[: len(source.vad)], atol=5e-5, err_msg=name)
            np.testing.assert_allclose(np.array(source.features), expected.features, atol=1e-3, err_msg=name)
            _check_statistics(source, settings)


def _check_statistics(source: Source, settings: Settings) -> None:
    for piece, got in zip(source.pieces, source.statistics, strict=False):
        channels = source.spec.channels
        columns = np.stack([_mono(source, piece, c) for c in range(channels)], axis=1)
        expected = signals.statistics(columns, settings.silence)
        np.testing.assert_allclose(got[:channels], expected, rtol=1e-5)
        assert not got[channels:].any()


def _mono(source: Source, piece: np.ndarray, channel: int) -> np.ndarray:
    from cosyd.frontend.pcm import to_float

    return to_float(piece[:, channel])


@pytest.mark.parametrize("variant", ["whisper", "raw", "vad hears denoised", "no denoiser"])
def test_variants(gpu: Gpu, vad_weights: VadWeights, dtln_weights: DtlnWeights, variant: str) -> None:
    settings = {
        "whisper": Settings(5, mel=WHISPER),
        "raw": Settings(5, blend=0.0),
        "vad hears denoised": Settings(5, blend=0.3, vad_denoised=True),
        "no denoiser": Settings(5, denoise=False, blend=0.0, mel=KALDI),
    }[variant]
    sources = {s: Source.make(s + 50, 48_000, SampleFormat.S16, 2, 0.6) for s in range(5)}
    with Pipeline(gpu, settings, vad_weights, dtln_weights) as pipeline:
        join(pipeline, sources)
        run(pipeline, sources, HOPS)
        for source in sources.values():
            expected = answer(pipeline, source, dtln_weights, vad_weights)
            if not settings.denoise:
                expected.asr = source.samples(settings.lead)
            np.testing.assert_allclose(np.concatenate(source.asr), expected.asr, atol=2e-5)
            np.testing.assert_allclose(source.vad, expected.vad[: len(source.vad)], atol=5e-5)
            np.testing.assert_allclose(np.array(source.features), expected.features, atol=1e-3)


def test_streams_join_and_leave_without_touching_others(
    gpu: Gpu, vad_weights: VadWeights, dtln_weights: DtlnWeights
) -> None:
    """Same bits whether others come and go, in any order of slots, and after a slot was used before."""
    with Pipeline(gpu, Settings(8, rates_hz=(16_000,)), vad_weights, dtln_weights) as pipeline:
        alone = {s: Source.make(s) for s in (3, 6)}
        join(pipeline, alone)
        run(pipeline, alone, HOPS)
        again = {s: Source.make(s) for s in (6, 3)}
        join(pipeline, again)
        run(pipeline, again, 11)
        others = {s: Source.make(s + 9) for s in (0, 7, 5)}
        join(pipeline, others)
        run(pipeline, {7: others[7], **again, 0: others[0], 5: others[5]}, 13)
        run(pipeline, {0: others[0]}, 2)
        run(pipeline, {5: others[5], **again}, HOPS - 24)
        for slot in (3, 6):
            np.testing.assert_array_equal(np.array(again[slot].asr), np.array(alone[slot].asr))
            np.testing.assert_array_equal(again[slot].vad, alone[slot].vad)
            np.testing.assert_array_equal(again[slot].features, alone[slot].features)


def test_the_hop_counter_wraps_unheard(gpu: Gpu, vad_weights: VadWeights, dtln_weights: DtlnWeights) -> None:
    with Pipeline(gpu, Settings(2, rates_hz=(16_000,)), vad_weights, dtln_weights) as pipeline:
        results = []
        for skip in (0, HOP_STEP):
            sources = {s: Source.make(s, seconds=1.5) for s in (0, 1)}
            join(pipeline, sources)
            run(pipeline, sources, 80)
            pipeline.clock.hop[:] += skip
            run(pipeline, sources, 80, features=False)
            results.append(np.array(sources[1].asr))
        assert pipeline.clock.hop.max() < HOP_STEP
        np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("count", [300, 2500])
@pytest.mark.parametrize("mode", ["fp16", "bf16"])
def test_tensor_core_modes_stay_close(
    gpu: Gpu, vad_weights: VadWeights, dtln_weights: DtlnWeights, mode: str, count: int
) -> None:
    if mode == "bf16" and gpu.arch < 80:
        pytest.skip("no BF16 before sm_80")
    kinds = [Source.make(seed, seconds=1.0) for seed in range(5)]
    with Pipeline(gpu, Settings(count, mode=mode, rates_hz=(16_000,)), vad_weights, dtln_weights) as pipeline:
        sources = {s: kinds[s] if s < 5 else Source(kinds[0].spec, kinds[s % 5].frames) for s in range(count)}
        join(pipeline, sources)
        run(pipeline, sources, 100, features=False)
        for slot in (0, 3, count - 1):
            got = np.concatenate(sources[slot].asr)
            expected = answer(pipeline, sources[slot], dtln_weights, vad_weights).asr
            noise = 20 * np.log10(np.linalg.norm(got - expected) / np.linalg.norm(expected))
            assert noise < (-45 if mode == "fp16" else -28), f"{noise:.1f} dB"


@pytest.mark.parametrize("mode", ["fp32", "fp16", "bf16"])
def test_a_thousand_times_too_loud_stays_finite_and_passes(
    gpu: Gpu, vad_weights: VadWeights, dtln_weights: DtlnWeights, mode: str
) -> None:
    """Floats far beyond ±1 overflow 16 bit inside; they must not stay in the stream's state."""
    if mode == "bf16" and gpu.arch < 80:
        pytest.skip("no BF16 before sm_80")
    count, loud_until = 130, 8_000
    with Pipeline(gpu, Settings(count, mode=mode, rates_hz=(16_000,)), vad_weights, dtln_weights) as pipeline:
        sources = {s: Source.make(s % 3, seconds=2.0) for s in range(count)}
        for source in sources.values():
            source.frames[:loud_until] *= 1_000
        join(pipeline, sources)
        run(pipeline, sources, 240, features=False)
        for slot in (0, count - 1):
            got, vad = np.concatenate(sources[slot].asr), np.array(sources[slot].vad)
            assert np.isfinite(got).all() and np.isfinite(vad).all()
            expected = answer(pipeline, sources[slot], dtln_weights, vad_weights).asr
            late = slice(3 * loud_until, None)
            noise = 20 * np.log10(np.linalg.norm(got[late] - expected[late]) / np.linalg.norm(expected[late]))
            assert noise < {"fp32": -60, "fp16": -30, "bf16": -20}[mode], f"{noise:.1f} dB"


def test_equals_the_cpu_stages(
    gpu: Gpu, vad_weights: VadWeights, dtln_weights: DtlnWeights, network_files: dict[str, Path]
) -> None:
    """FP32 mode against the parts of the CPU front end, the networks on ONNX Runtime."""
    pytest.importorskip("onnxruntime")
    from cosyd.frontend.dtln import Dtln
    from cosyd.frontend.filters import DcRemoval
    from cosyd.frontend.pcm import Mixer
    from cosyd.frontend.resample import Resampler
    from cosyd.frontend.silero import SileroVad

    source = Source.make(7, 48_000, SampleFormat.S16, 2, 4.0)
    with Pipeline(gpu, Settings(1), vad_weights, dtln_weights) as pipeline:
        join(pipeline, {0: source})
        hops = (len(source.pieces) // 4) * 4
        run(pipeline, {0: source}, hops)
    slot = np.zeros(1, np.intp)
    dc, dtln = DcRemoval(1), Dtln(network_files["dtln_1"], network_files["dtln_2"], 1)
    vad, resampler = SileroVad(network_files["vad"], 1), Resampler(48_000, lead=128)
    resampler.push(Mixer(2)(source.frames))
    raw = [dc.process(slot, block[None]) for block in taken(resampler.take)][: hops // 4]
    asr = np.concatenate([dtln.process(slot, block) for block in raw], axis=1)[0]
    signal = np.concatenate(raw, axis=1)[0][128:]
    chunks = signal[: len(signal) // 512 * 512].reshape(-1, 512)
    prob = np.array([vad.process(slot, chunk[None])[0] for chunk in chunks])
    got = np.concatenate(source.asr)
    np.testing.assert_allclose(got[: len(asr)], asr[: len(got)], atol=2e-5)
    np.testing.assert_allclose(source.vad[: len(prob)], prob[: len(source.vad)], atol=1e-4)
    assert np.abs(asr).max() > 0.05
