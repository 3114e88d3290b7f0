"""What the host hands to the resampling kernel: pieces, phases, primed history. The kernel's own formula in
NumPy must give what the CPU front end's resampler gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from cosyd.errors import UnsupportedFormat
from cosyd.frontend.resample import Resampler
from cosyd.gpu.intake import HopCutter
from cosyd.gpu.streams import HOP_STEP, HOP_WRAP, RATES_HZ, Clock, FilterBank, stream_record
from cosyd.spec import FRAME, AudioSpec, SampleFormat

BANK = FilterBank()


def taken(take: Callable[[], np.ndarray | None]) -> Iterator[np.ndarray]:
    while (piece := take()) is not None:
        yield piece


def through_the_kernel(x: np.ndarray, rate: int, lead: int, chunk: int) -> np.ndarray:
    """What kernels/resample.cu computes (without DC removal) from what the host gives it."""
    ratio = BANK.ratio(rate)
    cutter = HopCutter(AudioSpec(rate, 1, SampleFormat.F32), None, "mean", ratio, lead)
    clock, slot = Clock(1), np.zeros(1, np.intp)
    clock.start(slot, [ratio], lead)
    taps = BANK.taps[ratio.offset : ratio.offset + ratio.width * ratio.up].reshape(ratio.width, ratio.up)
    out, history = [], None
    for at in range(0, len(x), chunk):
        cutter.push(x[at : at + chunk, None], at)
        while (piece := cutter.take()) is not None:
            assert len(piece) == clock.frames(slot)[0] <= ratio.most_frames
            history = cutter.history if history is None else history
            line = np.concatenate((history, piece[:, 0]))
            time = int(clock.phase(slot)[0]) + np.arange(1, FRAME.hop + 1) * ratio.down
            index = (time // ratio.up)[:, None] + np.arange(ratio.width)
            out.append((line[index] * taps[:, time % ratio.up].T).sum(axis=1))
            history = line[-ratio.width :]
            clock.advance(slot)
    return np.concatenate(out)


@pytest.mark.parametrize("rate", RATES_HZ)
@pytest.mark.parametrize(("lead", "chunk"), [(0, 5000), (128, 77)])
def test_kernel_formula_equals_the_cpu_resampler(rate: int, lead: int, chunk: int) -> None:
    x = (np.random.default_rng(rate).standard_normal(rate // 2) * 0.1 + 0.05).astype(np.float32)
    got = through_the_kernel(x, rate, lead, chunk)
    cpu = Resampler(rate, lead=lead)
    cpu.push(x)
    expected = np.concatenate(list(taken(cpu.take)))
    size = min(len(got), len(expected))
    assert size > 6000
    np.testing.assert_allclose(got[:size], expected[:size], atol=2e-6)


def test_finish_brings_out_everything_and_the_delay() -> None:
    ratio = BANK.ratio(48_000)
    for frames in (1, 100, 5_000, 48_000):
        cutter = HopCutter(AudioSpec(48_000, 1, SampleFormat.F32), None, "mean", ratio, 128)
        cutter.push(np.full((frames, 1), 0.5, np.float32), 7)
        cutter.finish(384)
        outputs = sum(FRAME.hop for _ in taken(cutter.take))
        needed = -(-frames // 3) + 384 + 128
        assert needed <= outputs < needed + FRAME.block
        assert outputs % FRAME.block == 0


def test_frames_must_follow_each_other() -> None:
    cutter = HopCutter(AudioSpec(16_000, 1, SampleFormat.F32), None, "mean", BANK.ratio(16_000), 0)
    cutter.push(np.zeros((10, 1), np.float32), 100)
    with pytest.raises(ValueError, match="110 was due"):
        cutter.push(np.zeros((10, 1), np.float32), 111)
    cutter.restart(500)
    cutter.push(np.zeros((10, 1), np.float32), 500)
    assert cutter.clock(16) == 516


def test_nonfinite_samples_are_counted() -> None:
    cutter = HopCutter(AudioSpec(16_000, 2, SampleFormat.F32), None, "mean", BANK.ratio(16_000), 0)
    cutter.push(np.array([[np.nan, 1], [0, np.inf]], np.float32), 0)
    assert cutter.nonfinite == 2


def test_the_hop_counter_keeps_its_residues_when_it_wraps() -> None:
    assert HOP_STEP % 8 == 0 and HOP_STEP % 5 == 0 and HOP_WRAP - HOP_STEP > 20
    clock, slots = Clock(2), np.array([0, 1])
    clock.hop[:] = HOP_WRAP - 2, 5
    for _ in range(3):
        clock.advance(slots)
    assert clock.hop.tolist() == [HOP_WRAP + 1 - HOP_STEP, 8]


def test_what_the_kernel_cannot_take_is_refused() -> None:
    with pytest.raises(UnsupportedFormat, match="12345"):
        BANK.ratio(12_345)
    with pytest.raises(UnsupportedFormat, match="too many"):
        FilterBank((44_101,))
    spec = AudioSpec(16_000, 40, SampleFormat.S16)
    with pytest.raises(UnsupportedFormat, match="32"):
        stream_record(spec, BANK.ratio(16_000), (0,))


def test_the_channel_mask_uses_all_32_bits() -> None:
    record = stream_record(AudioSpec(16_000, 32, SampleFormat.S24), BANK.ratio(16_000), (0, 31))
    assert np.array(record["mapped"]).view(np.uint32) == 0x8000_0001
    assert record["format"] == 3
