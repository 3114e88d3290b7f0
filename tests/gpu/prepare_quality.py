"""Mixes speech with noise into one file that quality_gpu.py reads where soundfile is not installed.

prepare_quality.py OUTPUT NOISE SNR_DB CLIPS_PER_FOLDER FOLDER...
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import soundfile

RATE = 16_000
MOST_S = 12  # clips are cut to this, to bound the file


def read(path: Path) -> np.ndarray:
    x, rate = soundfile.read(path, dtype="float32", always_2d=True)
    if rate % RATE:
        raise SystemExit(f"{path}: {rate} Hz; this script takes multiples of {RATE} Hz")
    from cosyd.frontend.resample import Resampler

    resampler = Resampler(rate)
    resampler.push(x[:, 0])
    resampler.finish(resampler.expected)
    blocks = []
    while (block := resampler.take()) is not None:
        blocks.append(block)
    return np.concatenate(blocks)


def main() -> None:
    output, noise_file, snr, count = (
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        float(sys.argv[3]),
        int(sys.argv[4]),
    )
    noise = read(noise_file)
    arrays = {}
    for folder in map(Path, sys.argv[5:]):
        for i, path in enumerate(sorted(folder.glob("*.flac"))[:count]):
            clean = read(path)[: MOST_S * RATE]
            part = np.resize(np.roll(noise, -7919 * i), len(clean))
            part = part * np.sqrt(np.mean(clean**2) / np.mean(part**2) / 10 ** (snr / 10))
            mixed = clean + part
            scale = min(1.0, 0.95 / float(np.abs(mixed).max()))
            name = f"{folder.name}/{path.stem}"
            for kind, signal in (("clean", clean), ("mixed", mixed)):
                arrays[f"{kind}:{name}"] = np.round(signal * scale * 32767).astype(np.int16)
    np.savez_compressed(output, **arrays)


if __name__ == "__main__":
    main()
