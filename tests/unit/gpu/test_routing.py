"""Which stream runs where, and what happens when the GPU fails: over the reference pipeline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from front_end_fakes import drain, feed, rows
from gpu_fakes import cpu_front, gpu_front

from cosyd.config.schema import FrontendConfig
from cosyd.errors import CosydError, GpuError
from cosyd.gpu.banks import Banks
from cosyd.gpu.memory import Watermark
from cosyd.gpu.routing import RoutedFrontEnd
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import GpuUsage, Health

MONO = AudioSpec(16_000, 1, SampleFormat.F32)
USAGE = GpuUsage(100, 200, 300, 0, 0, device_used=500, device_total=1000, fallbacks=0)


class Ear:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.healths: list[Health] = []
        self.usages: list[GpuUsage] = []
        self.renewals: list[str] = []

    def health(self, health: Health) -> None:
        self.healths.append(health)

    def usage(self, usage: GpuUsage) -> None:
        self.usages.append(usage)

    def alive(self) -> None:
        pass

    def renew(self, reason: str) -> None:
        self.renewals.append(reason)

    @property
    def codes(self) -> list[str]:
        return [health.code for health in self.healths]


class Asked:
    """A revival: the GPU answers when ``answers`` says so."""

    def __init__(self) -> None:
        self.failures, self.answers, self.closed = 0, False, False

    def failed(self) -> None:
        self.failures += 1

    def poll(self) -> bool:
        answers, self.answers = self.answers, False
        return answers

    def close(self) -> None:
        self.closed = True


class Bench:
    """A routed front end whose GPU has ``banks`` of the configuration's slots at most."""

    def __init__(
        self, most: int = 1, rates: tuple[int, ...] = (16_000, 44_100, 48_000), **fault: object
    ) -> None:
        self.config = FrontendConfig(max_streams=4, denoise_rests=False)
        self.ear, self.now, self.usage = Ear(), 0.0, USAGE
        self.memory = most  # banks that there is memory for
        small = self.config.model_copy(update={"max_streams": 2})

        def open_bank():
            if not self.memory:
                raise GpuError("fake: no 1,000 bytes of memory left")
            self.memory -= 1
            return gpu_front(small, rates, **fault)

        self.banks = Banks(open_bank, 2, lambda: self.usage, Watermark(0.85, 60))
        self.banks.grow()
        self.revival = Asked()
        self.front = RoutedFrontEnd(
            cpu_front(self.config), 4, self.ear, self.banks, "", lambda: self.now, self.revival
        )

    def where(self, slot: int) -> str:
        return self.front.backends_of(slot)["vad"].name

    def why(self, slot: int) -> str:
        return self.front.backends_of(slot)["vad"].reason


def noise(frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, 1)).astype(np.float32) * 0.1


# --- placing -------------------------------------------------------------------------------------------


def test_more_streams_get_more_memory_and_then_the_cpu_with_the_reason() -> None:
    bench = Bench(most=2)
    slots = [bench.front.open(MONO) for _ in range(4)]
    assert [bench.where(slot) for slot in slots] == ["fake gpu"] * 4
    assert bench.ear.codes == []
    with pytest.raises(CosydError, match="all 4 streams"):
        bench.front.open(MONO)


def test_without_memory_new_streams_go_to_the_cpu_and_the_running_ones_go_on() -> None:
    bench = Bench(most=1)
    slots = [bench.front.open(MONO) for _ in range(3)]
    assert [bench.where(slot) for slot in slots] == ["fake gpu", "fake gpu", "fake"]
    assert bench.why(slots[2]) == "fake: no 1,000 bytes of memory left"
    assert "1 of 3 streams run on the CPU" in bench.front.backends["vad"].reason
    assert bench.ear.codes == ["gpu_fallback"]
    assert bench.banks.refused == {"memory": 1}
    x = noise(3000)
    for slot in slots:
        bench.front.push(slot, x, 0)
        bench.front.flush(slot)
    out = drain(bench.front)
    first, other, cpu = (rows(out, slot) for slot in slots)
    np.testing.assert_array_equal(first[1], other[1])
    np.testing.assert_allclose(first[1], cpu[1], atol=1e-6)
    bench.front.close(slots[0])
    assert bench.where(bench.front.open(MONO)) == "fake gpu"


def test_a_rate_that_the_kernels_do_not_have_runs_on_the_cpu() -> None:
    bench = Bench()
    slot = bench.front.open(AudioSpec(12_345, 1, SampleFormat.S16))
    assert bench.where(slot) == "fake"
    assert "12345 Hz" in bench.why(slot)
    wide = bench.front.open(AudioSpec(48_000, 16, SampleFormat.S32))
    assert "wider" in bench.why(wide)
    assert bench.banks.refused == {"format": 2}


def test_the_watermark_sends_new_streams_away_after_its_minute_and_lets_them_back() -> None:
    bench = Bench()
    first = bench.front.open(MONO)
    bench.usage = replace(USAGE, device_used=900)
    for bench.now in (1.0, 30.0, 60.5):
        bench.front.step()
    assert bench.where(bench.front.open(MONO)) == "fake gpu", "not a minute yet"
    bench.now = 61.6
    bench.front.step()
    assert [(h.code, h.severity) for h in bench.ear.healths] == [("gpu_memory", "warning")]
    away = bench.front.open(MONO)
    assert (bench.where(away), bench.where(first)) == ("fake", "fake gpu")
    assert "nearly full" in bench.why(away)
    bench.usage, bench.now = USAGE, 63.0
    bench.front.step()
    assert bench.ear.healths[-1].severity == "info"
    assert not bench.banks.nearly_full
    assert [usage.moved for usage in bench.ear.usages][-1] == {"watermark": 1}


def test_memory_is_looked_at_once_a_second() -> None:
    bench = Bench()
    for bench.now in (0.0, 0.2, 0.9, 1.0, 1.1, 2.5):
        bench.front.step()
    assert len(bench.ear.usages) == 3


# --- failing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fail_at", [0, 1, 6, 11, 40, 77])
@pytest.mark.parametrize("collecting", [False, True])
@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
def test_a_dead_gpu_loses_nothing(fail_at: int, collecting: bool, rate: int) -> None:
    """All blocks come, once and in order; those that the CPU computes are what it would have made of them."""
    bench = Bench(fail_at=fail_at, collecting=collecting)
    spec = AudioSpec(rate, 1, SampleFormat.F32)
    x = noise(rate, seed=fail_at)
    slot = bench.front.open(spec)
    got = rows(feed(bench.front, slot, x, list(range(500, len(x), 999)), at=7_000), slot)
    reference = cpu_front(bench.config)
    expected = rows(feed(reference, reference.open(spec), x, at=7_000), 0)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1], atol=1e-6)
    np.testing.assert_allclose(got[2], expected[2], atol=1e-6)
    (health,) = bench.ear.healths
    assert (health.code, health.severity) == ("gpu_failed", "error")
    assert health.message.startswith("fake: a step failed: injected; 1 streams go on on the CPU")
    assert "\n" not in health.message
    assert bench.where(slot) == "fake"
    assert bench.why(slot) == "the GPU failed: fake: a step failed: injected"
    assert bench.front.backends["vad"].reason == bench.why(slot)


def test_long_after_the_beginning_what_is_kept_suffices() -> None:
    """The rings have gone round; the fakes' states settle within the two seconds that are run again."""
    bench = Bench(fail_at=640)
    x = noise(16_000 * 6)
    slot = bench.front.open(MONO)
    got = rows(feed(bench.front, slot, x, list(range(0, len(x), 1600))), slot)
    reference = cpu_front(bench.config)
    expected = rows(feed(reference, reference.open(MONO), x), 0)
    assert bench.where(slot) == "fake"
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1], atol=1e-6)
    np.testing.assert_allclose(got[2], expected[2], atol=1e-4)


def test_several_streams_with_a_backlog_move_together() -> None:
    """More waits than the CPU takes at once; one stream has not begun, one was restarted, one has ended."""
    bench = Bench(most=2, fail_at=30)
    begun, idle, late, ended = (bench.front.open(MONO) for _ in range(4))
    x, out = noise(5 * 16_000), []
    bench.front.push(begun, x[:16_000], 0)
    out += [bench.front.step() for _ in range(5)]
    taken = 16_000 + bench.front.push(begun, x[16_000:], 16_000)
    bench.front.restart(late, 123)
    bench.front.push(ended, x[:700], 0)
    bench.front.flush(ended)
    out += drain(bench.front)
    assert bench.ear.codes == ["gpu_failed"]
    while taken < len(x):
        taken += bench.front.push(begun, x[taken:], taken)
        out += drain(bench.front)
    bench.front.push(late, x[:600], 123)
    for slot in (begun, late):
        bench.front.flush(slot)
    out += drain(bench.front)
    assert bench.where(idle) == "fake"
    samples, audio, _ = rows(out, begun)
    np.testing.assert_array_equal(samples, np.arange(len(samples)) * FRAME.block)
    reference = cpu_front(bench.config)
    expected = rows(feed(reference, reference.open(MONO), x), 0)
    np.testing.assert_allclose(audio, expected[1], atol=1e-6)
    assert rows(out, late)[0].tolist() == [123, 635]
    assert rows(out, ended)[0].tolist() == [0, 512]


def test_after_the_failure_new_streams_start_on_the_cpu_with_the_reason() -> None:
    bench = Bench(fail_at=0)
    slot = bench.front.open(MONO)
    feed(bench.front, slot, noise(2000))
    new = bench.front.open(MONO)
    assert (bench.where(new), bench.why(new)) == ("fake", "the GPU failed: fake: a step failed: injected")
    assert bench.ear.codes == ["gpu_failed"], "told once"
    bench.front.shut()


def test_a_gpu_that_answers_again_has_a_new_process_asked_for() -> None:
    """The streams go on on the CPU until then; see tests/gpu/dead_gpu.py for a real one."""
    bench = Bench(fail_at=0)
    slot = bench.front.open(MONO)
    bench.front.step()
    assert (bench.revival.failures, bench.ear.renewals) == (0, []), "nobody asks while it works"
    x = noise(16_000)
    out = feed(bench.front, slot, x[:8_000], flush=False)
    assert bench.revival.failures == 1
    bench.revival.answers = True
    out += feed(bench.front, slot, x[8_000:], at=8_000)
    assert bench.ear.renewals == ["the GPU answers again; the GPU failed: fake: a step failed: injected"]
    np.testing.assert_array_equal(rows(out, slot)[0], np.arange(32) * FRAME.block)
    bench.front.shut()
    assert bench.revival.closed


def test_a_device_that_does_not_say_its_memory_has_failed() -> None:
    bench = Bench()
    slot = bench.front.open(MONO)

    def silent() -> GpuUsage:
        raise GpuError("asking the driver for its memory failed: 999")

    bench.banks._usage = silent
    bench.now = 5.0
    x = noise(1024)
    got = rows(feed(bench.front, slot, x), slot)
    assert len(got[0]) == 2
    assert bench.ear.codes == ["gpu_failed"]


def test_the_pipelines_are_closed_once_the_gpu_has_failed() -> None:
    bench = Bench(fail_at=0)
    pipeline = bench.banks.all[0]._pipeline
    feed(bench.front, bench.front.open(MONO), noise(1000))
    assert pipeline.closed
    assert bench.banks.all == []
