"""A real CUDA error in the middle of a stream: what the daemon's front end makes of it.

In a process of its own: the error takes the whole context.
dead_gpu.py MODELS CACHE
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))
from gpu_feed import Source

from cosyd.config.schema import FrontendConfig, GpuConfig
from cosyd.frontend.factory import make_front_end
from cosyd.gpu.factory import open_front_end
from cosyd.models.store import ModelStore
from cosyd.spec import AudioSpec, SampleFormat
from cosyd.types import GpuUsage, Health

SPEC = AudioSpec(48_000, 2, SampleFormat.S16)
PIECE = 1234
FAIL_AT = 2.9  # seconds
HEALED_S = 30.0
LATE_S = 0.15  # a block is run when the denoiser's delay and the resampler's filter have been pushed, too


class Ear:
    def __init__(self) -> None:
        self.healths: list[Health] = []
        self.renewals: list[str] = []

    def health(self, health: Health) -> None:
        self.healths.append(health)

    def usage(self, usage: GpuUsage) -> None:
        pass

    def alive(self) -> None:
        pass

    def renew(self, reason: str) -> None:
        self.renewals.append(reason)


def play(front, x: np.ndarray, fault=None):
    """(clocks, blocks, probabilities) of one stream; ``fault`` is called once on the way."""
    slot, at, got = front.open(SPEC), 0, []
    while at < len(x):
        if fault and at > FAIL_AT * SPEC.rate_hz:
            fault()
            fault = None
        at += front.push(slot, x[at : at + PIECE], at)
        got += list(iter(front.step, None))
    front.flush(slot)
    got += list(iter(front.step, None))
    clocks, blocks, probabilities = (
        [getattr(b, name)[0] for b in got] for name in ("samples", "asr", "vad_prob")
    )
    return np.array(clocks), np.array(blocks), np.array(probabilities)


def until_asked(front, ear: Ear) -> float:
    """Seconds from now until the front end asks for a process that can use the GPU again."""
    began = time.monotonic()
    while not ear.renewals:
        assert time.monotonic() - began < HEALED_S, "nobody asked for a new process"
        front.step()
        time.sleep(0.02)
    assert "answers again" in ear.renewals[0], ear.renewals
    return time.monotonic() - began


def again_in_a_new_process(models: Path, cache: Path, x: np.ndarray) -> None:
    """What the daemon's next recogniser finds."""
    context = multiprocessing.get_context("spawn")
    successor = context.Process(target=use_it, args=(models, cache, x))
    successor.start()
    successor.join(60)
    assert successor.exitcode == 0, successor.exitcode


def use_it(models: Path, cache: Path, x: np.ndarray) -> None:
    config, ear = FrontendConfig(denoise_rests=False), Ear()
    with open_front_end(config, GpuConfig(require_gpu=True), ModelStore(models), cache, ear) as front:
        clocks, _, _ = play(front, x)
        assert front.backends["vad"].name == "cuda" and len(clocks) and not ear.healths


def main() -> None:
    models, cache = map(Path, sys.argv[1:3])
    store, config, ear = ModelStore(models), FrontendConfig(denoise_rests=False), Ear()
    x = Source.make(1, SPEC.rate_hz, SPEC.format, SPEC.channels, seconds=5.0).frames
    expected = play(make_front_end(config, store), x)
    with open_front_end(config, GpuConfig(require_gpu=True), store, cache, ear) as front:
        bank = front._banks.all[0]
        gpu = bank._pipeline._gpu

        def illegal_address() -> None:
            values = (np.uintp(64), np.int32(8), np.int32(64), np.uintp(64))  # no such memory on the device
            gpu.launch("slots", "clear_slots", (4, 1), 256, *values, stream=bank._pipeline._stream)

        clocks, blocks, probabilities = play(front, x, illegal_address)
        reason = front.backends["vad"].reason
        healed_s = until_asked(front, ear)
    again_in_a_new_process(models, cache, x)
    assert [h.code for h in ear.healths] == ["gpu_failed"], ear.healths
    assert "illegal" in reason, reason
    np.testing.assert_array_equal(clocks, expected[0])
    before = clocks < (FAIL_AT - LATE_S) * SPEC.rate_hz
    np.testing.assert_allclose(blocks[before], expected[1][before], atol=1e-4)
    far = blocks[~before] - expected[1][~before]
    closeness_db = 10 * np.log10((expected[1][~before] ** 2).sum() / (far**2).sum())
    changed = int(((probabilities > 0.6) != (expected[2] > 0.6)).sum())
    sys.stdout.write(
        f"{ear.healths[0].message}\n{len(clocks)} blocks, none missing; after the failure "
        f"{closeness_db:.0f} dB from what the CPU alone would have made of it, "
        f"{changed} VAD decisions changed\n"
        f"after {healed_s:.1f} s the device answered in another process, which a new recogniser then has\n"
    )
    assert closeness_db > 35 and changed == 0


if __name__ == "__main__":
    main()
