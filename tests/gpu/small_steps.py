"""A few hops through every kernel and both sides of every size limit, for compute-sanitizer.

small_steps.py MODELS CACHE
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from cosyd.bench.gpu_blocks import blocks
from cosyd.bench.gpu_runner import Runner
from cosyd.gpu import driver
from cosyd.gpu.driver import Gpu
from cosyd.gpu.mel import WHISPER
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.settings import Settings
from cosyd.gpu.weights import read_dtln, read_vad

RATES = (48_000,)
CASES = (
    Settings(1, rates_hz=RATES),
    Settings(9, mel=WHISPER, rates_hz=RATES, vad_denoised=True, blend=0.5),
    Settings(129, rates_hz=RATES),
    Settings(130, "fp16", denoise=True, rates_hz=RATES),
    Settings(131, "bf16", rates_hz=RATES),
    Settings(2049, rates_hz=RATES),
    Settings(2050, "fp16", rates_hz=RATES),
    Settings(3, denoise=False, rates_hz=RATES),
)


def main() -> None:
    driver.ANSWER_S = 600.0  # a sanitizer makes steps a thousand times slower
    models, cache = map(Path, sys.argv[1:3])
    dtln = read_dtln(models / "dtln" / "model_1.onnx", models / "dtln" / "model_2.onnx")
    vad = read_vad(models / "silero-vad-6" / "silero_vad_16k_op15.onnx")
    with Gpu(cache) as gpu:
        for settings in CASES:
            if settings.mode == "bf16" and gpu.arch < 80:
                continue
            with Pipeline(gpu, settings, vad, dtln if settings.denoise else None) as pipeline:
                run = Runner(pipeline, settings.slots)
                run.steps(5)
                assert np.isfinite(run.seconds).all()
    found = blocks(models, cache, lent=True, count=5)
    sys.stdout.write(f"{len(CASES)} pipelines; a ring: {found['frames']}\n")


if __name__ == "__main__":
    main()
