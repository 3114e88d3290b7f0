"""What the tensor-core modes cost on real speech in noise: SI-SDR after denoising, and the VAD's decisions.

quality_gpu.py MIXTURES.npz MODELS CACHE OUTPUT.json       (MIXTURES from prepare_quality.py)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.gpu.driver import Gpu
from cosyd.gpu.dtln import FEW_STREAMS
from cosyd.gpu.intake import HopCutter
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.settings import Mode, Settings
from cosyd.gpu.weights import read_dtln, read_vad
from cosyd.spec import FRAME, AudioSpec, SampleFormat

SPEC = AudioSpec(16_000, 1, SampleFormat.S16)
START, RELEASE = 0.6, 0.45  # the defaults of vad.threshold and vad.release
Signals = list[np.ndarray]


def si_sdr(estimate: np.ndarray, target: np.ndarray) -> float:
    target = target - target.mean()
    estimate = estimate - estimate.mean()
    part = target * (estimate @ target) / (target @ target)
    return float(10 * np.log10((part @ part) / ((estimate - part) @ (estimate - part))))


def decisions(prob: np.ndarray) -> np.ndarray:
    """Speech or not, block by block, with hysteresis."""
    speech, out = False, np.zeros(len(prob), bool)
    for i, p in enumerate(prob):
        speech = p >= START or (speech and p >= RELEASE)
        out[i] = speech
    return out


def run(pipeline: Pipeline, clips: Signals) -> tuple[Signals, Signals]:
    """All clips at once, padded with silence to the longest: denoised signals and probabilities."""
    settings, count = pipeline.settings, len(clips)
    cutters, pieces = [], []
    longest = max(map(len, clips)) + settings.lead + settings.trail + 2 * FRAME.hop
    for clip in clips:
        cutter = HopCutter(SPEC, None, "mean", pipeline.filters.ratio(SPEC.rate_hz), settings.lead)
        cutter.push(np.pad(clip, (0, longest - len(clip)))[:, None], 0)
        cut = []
        while (piece := cutter.take()) is not None:
            cut.append(piece.view(np.uint8).reshape(-1))
        cutters.append(cutter)
        pieces.append(cut)
    history = np.zeros((count, pipeline.filters.widest), np.float32)
    for row, cutter in zip(history, cutters, strict=True):
        row[: len(cutter.history)] = cutter.history
    slots = np.arange(count)
    pipeline.join(slots, np.array([c.record for c in cutters]), [c.ratio for c in cutters], history)
    asr: list[list[np.ndarray]] = [[] for _ in clips]
    vad: list[list[float]] = [[] for _ in clips]
    for hop in range(len(pieces[0])):
        pcm = pipeline.begin(slots)
        for row, cut in enumerate(pieces):
            pcm[row, : len(cut[hop])] = cut[hop]
        result = pipeline.collect(pipeline.launch())
        for row in range(count):
            asr[row].append(result.asr[row].copy())
        for row, p in zip(result.vad_rows, result.vad_prob, strict=True):
            vad[row].append(float(p))
    skip = settings.lead + settings.trail
    signals = [np.concatenate(a)[skip : skip + len(c)] for a, c in zip(asr, clips, strict=True)]
    return signals, [np.array(v[: len(c) // FRAME.block]) for v, c in zip(vad, clips, strict=True)]


def compare(gpu: Gpu, models: Path, clean: Signals, mixed: Signals, vad_denoised: bool) -> dict[str, Any]:
    dtln = read_dtln(models / "dtln" / "model_1.onnx", models / "dtln" / "model_2.onnx")
    vad = read_vad(models / "silero-vad-6" / "silero_vad_16k_op15.onnx")
    modes: tuple[Mode, ...] = ("fp32", "fp16", "bf16") if gpu.arch >= 80 else ("fp32", "fp16")
    results: dict[str, tuple[Signals, Signals]] = {}
    for mode in modes:
        # Few rows take FP32 in every mode: the clips are repeated until the tensor cores are used.
        copies = -(-(FEW_STREAMS + 1) // len(mixed))
        settings = Settings(
            copies * len(mixed), mode, vad_denoised=vad_denoised, rates_hz=(16_000,), mel=None
        )
        with Pipeline(gpu, settings, vad, dtln) as pipeline:
            signals, prob = run(pipeline, copies * mixed)
        results[mode] = signals[: len(mixed)], prob[: len(mixed)]
    pairs = zip(results["fp32"][0], results["fp16"][0], strict=True)
    assert any((a != b).any() for a, b in pairs), "the tensor-core kernels were not used"
    report: dict[str, Any] = {"vad_hears": "denoised" if vad_denoised else "raw", "clips": len(mixed)}
    noisy = [si_sdr(m.astype(float), c.astype(float)) for m, c in zip(mixed, clean, strict=True)]
    report["si_sdr_db_before"] = round(float(np.mean(noisy)), 3)
    reference = [decisions(v) for v in results["fp32"][1]]
    for mode, (signals, prob) in results.items():
        values = np.array([si_sdr(s, c.astype(float)) for s, c in zip(signals, clean, strict=True)])
        base = np.array([si_sdr(s, c.astype(float)) for s, c in zip(results["fp32"][0], clean, strict=True)])
        changed = sum(int((decisions(p) != r).sum()) for p, r in zip(prob, reference, strict=True))
        largest = max(float(np.abs(p - q).max()) for p, q in zip(prob, results["fp32"][1], strict=True))
        report[mode] = {
            "si_sdr_db": round(float(values.mean()), 4),
            "mean_loss_db": round(float((base - values).mean()), 5),
            "worst_loss_db": round(float((base - values).max()), 5),
            "vad_blocks": int(sum(map(len, prob))),
            "vad_decisions_changed": changed,
            "vad_probability_off": largest,
        }
    return report


def main() -> None:
    mixtures, models, cache, output = map(Path, sys.argv[1:5])
    data = np.load(mixtures)
    names = [key.removeprefix("clean:") for key in data if key.startswith("clean:")]
    clean, mixed = ([data[f"{kind}:{name}"] for name in names] for kind in ("clean", "mixed"))
    with Gpu(cache) as gpu:
        report = [compare(gpu, models, clean, mixed, vad_denoised) for vad_denoised in (False, True)]
    output.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(output.read_text())


if __name__ == "__main__":
    main()
