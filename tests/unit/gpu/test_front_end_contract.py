"""One body for all front ends: the CPU's, the GPU's over the reference pipeline, and the one that routes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from front_end_fakes import drain, feed, rows
from gpu_fakes import cpu_front, gpu_front

from cosyd.config.schema import FrontendConfig
from cosyd.errors import CosydError, UnsupportedFormat
from cosyd.frontend.contract import PENDING_BLOCKS, StreamFrontEnd
from cosyd.gpu.banks import Banks
from cosyd.gpu.routing import RoutedFrontEnd
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import GpuUsage

MONO = AudioSpec(16_000, 1, SampleFormat.F32)
Make = Callable[[FrontendConfig], StreamFrontEnd]


class Deaf:
    def health(self, health: object) -> None:
        pass

    def usage(self, usage: object) -> None:
        pass


def routed(config: FrontendConfig) -> StreamFrontEnd:
    usage = GpuUsage(0, 0, 0, 0, 0, 0, 1, 0)
    banks = Banks(lambda: gpu_front(config), 1, lambda: usage)
    banks.grow()
    return RoutedFrontEnd(cpu_front(config), config.max_streams, Deaf(), banks)


@pytest.fixture(params=[cpu_front, gpu_front, routed], ids=["cpu", "gpu", "routed"])
def make(request: pytest.FixtureRequest) -> Make:
    chosen: Make = request.param
    return chosen


def configured(**options: object) -> FrontendConfig:
    return FrontendConfig.model_validate({"max_streams": 3, "denoise_rests": False, **options})


def noise(frames: int, channels: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, channels)).astype(np.float32) * 0.1


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"blend": 0.25, "vad_input": "denoised"},
        {"asr_input": "raw"},
        {"asr_input": "denoised"},
        {"denoise": "off", "remove_dc": False},
    ],
    ids=["blend", "vad denoised", "raw", "denoised", "off"],
)
@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (AudioSpec(16_000, 1, SampleFormat.F32), np.float32),
        (AudioSpec(48_000, 2, SampleFormat.S16), np.int16),
        (AudioSpec(44_100, 1, SampleFormat.S32), np.int32),
    ],
    ids=str,
)
def test_blocks_clocks_and_probabilities_are_those_of_the_cpu(
    make: Make, options: dict[str, object], spec: AudioSpec, kind: type
) -> None:
    config = configured(**options)
    x = noise(spec.rate_hz // 4, spec.channels)
    if kind is not np.float32:
        x = (x * np.iinfo(kind).max).astype(kind)
    front, reference = make(config), cpu_front(config)
    cuts = list(range(100, len(x), 1777))
    got = rows(feed(front, front.open(spec), x, cuts, at=10**10), 0)
    expected = rows(feed(reference, reference.open(spec), x, at=10**10), 0)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1], atol=1e-6)
    np.testing.assert_allclose(got[2], expected[2], atol=1e-6)


def test_a_backlog_is_bounded_and_nothing_of_it_is_lost(make: Make) -> None:
    front = make(configured(denoise="off", remove_dc=False))
    slot = front.open(MONO)
    x = noise(5 * 16_000)
    taken = front.push(slot, x, 0)
    assert 0 < taken < len(x)
    assert front.statistics(slot).pending == PENDING_BLOCKS
    assert front.push(slot, x[taken:], taken) == 0
    out = drain(front) + feed(front, slot, x[taken:], at=taken)
    samples, audio, _ = rows(out, slot)
    np.testing.assert_array_equal(samples, np.arange(len(samples)) * FRAME.block)
    np.testing.assert_allclose(audio.reshape(-1)[: len(x)], x[:, 0], atol=1e-7)


def test_all_input_comes_out_after_flush(make: Make) -> None:
    for frames in (1, 383, 512, 513, 1500):
        front = make(configured())
        slot = front.open(MONO)
        samples, audio, _ = rows(feed(front, slot, noise(frames)), slot)
        assert audio.size == -(-frames // FRAME.block) * FRAME.block
        assert samples[0] == 0


def test_a_restarted_slot_is_as_new_on_another_clock(make: Make) -> None:
    x = noise(3000, seed=9)
    used, new = make(configured()), make(configured())
    slot = used.open(MONO)
    used.push(slot, x[::-1].copy(), 0)
    used.step()
    used.restart(slot, 70_000)
    got, expected = rows(feed(used, slot, x, at=70_000), slot), rows(feed(new, new.open(MONO), x), 0)
    np.testing.assert_array_equal(got[0], expected[0] + 70_000)
    np.testing.assert_array_equal(got[1], expected[1])
    np.testing.assert_array_equal(got[2], expected[2])


def test_streams_do_not_hear_each_other(make: Make) -> None:
    front, alone = make(configured()), make(configured())
    first, second = front.open(MONO), front.open(AudioSpec(48_000, 1, SampleFormat.F32))
    x, other = noise(4000, seed=1), noise(12_000, seed=2)
    out = []
    for part in range(4):
        front.push(second, other[part * 3000 : (part + 1) * 3000], part * 3000)
        front.push(first, x[part * 1000 : (part + 1) * 1000], part * 1000)
        out += drain(front)
    front.flush(first)
    got, expected = rows(out + drain(front), first), rows(feed(alone, alone.open(MONO), x), 0)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])


def test_a_gap_that_nobody_announced_is_an_error(make: Make) -> None:
    front = make(configured())
    slot = front.open(MONO)
    front.push(slot, np.zeros((100, 1), np.float32), 500)
    with pytest.raises(ValueError, match="frames of sample 601 pushed where 600 was due"):
        front.push(slot, np.zeros((100, 1), np.float32), 601)


def test_slots_are_bounded_and_used_again(make: Make) -> None:
    front = make(configured(max_streams=2))
    first, second = front.open(MONO), front.open(MONO)
    with pytest.raises(CosydError, match=r"all 2 streams are in use; raise frontend\.max_streams"):
        front.open(MONO)
    front.push(first, np.ones((4096, 1), np.float32), 0)
    front.close(first)
    front.close(first)
    assert front.step() is None
    assert front.open(MONO) == first != second
    assert front.statistics(first).pending == 0


def test_a_channel_map_beyond_the_device_is_refused_and_takes_no_slot(make: Make) -> None:
    front = make(configured(max_streams=1))
    with pytest.raises(UnsupportedFormat):
        front.open(AudioSpec(16_000, 2, SampleFormat.S16), [2])
    assert front.open(MONO) == 0


def test_a_channel_map_chooses_and_the_first_is_the_first(make: Make) -> None:
    front = make(configured(denoise="off", remove_dc=False))
    x = noise(1024, channels=3)
    mean = front.open(AudioSpec(16_000, 3, SampleFormat.F32), (1, 2))
    first = front.open(AudioSpec(16_000, 3, SampleFormat.F32), (2, 0), "first")
    for slot, expected in ((mean, x[:, 1:].mean(axis=1)), (first, x[:, 2])):
        got = rows(feed(front, slot, x), slot)[1].reshape(-1)
        np.testing.assert_allclose(got, expected, atol=1e-7)


def test_what_is_not_finite_is_counted_and_silent(make: Make) -> None:
    front = make(configured(denoise="off", remove_dc=False))
    slot, x = front.open(MONO), noise(1024)
    x[5], x[700] = np.nan, np.inf
    got = rows(feed(front, slot, x), slot)[1].reshape(-1)
    assert got[5] == got[700] == 0
    assert front.statistics(slot).nonfinite == 2


def test_every_stage_says_what_it_runs_on(make: Make) -> None:
    front = make(configured())
    slot = front.open(MONO)
    assert set(front.backends) == set(front.backends_of(slot)) == {"vad", "denoise"}
    assert all(b.name and b.reason for b in front.backends_of(slot).values())
    assert set(make(configured(denoise="off")).backends) == {"vad"}


def test_nothing_to_do_is_none(make: Make) -> None:
    front = make(configured())
    assert front.step() is None
    front.open(MONO)
    assert front.step() is None
