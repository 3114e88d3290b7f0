"""Devices that vanish, come back, are busy, overrun or hang (field cases 1, 2, 4 to 7), scripted."""

from __future__ import annotations

import dataclasses
import threading
import time

import numpy as np
import pytest
from capture_run import PATIENCE_S, Run, attach, read_frames
from fake_device import HDMI, MIC, FakeSystem, Script, refuse_all

from cosyd.capture.bounded import LOOK_S, DriverHangs
from cosyd.capture.device import DeviceInfo
from cosyd.capture.track import Track
from cosyd.capture.watch import CALM_LOOK_S, STOP_TIMEOUT_S, DeviceWatch
from cosyd.config.schema import SourceConfig
from cosyd.errors import UnsupportedFormat
from cosyd.spec import AudioSpec, SampleFormat
from cosyd.types import CaptureProgress, DeviceLost, DeviceOpened, GapRecorded

CONFIG = SourceConfig(device="Array", block_ms=10, stale_ms=500, reopen_ms=50, buffer_s=2)


@pytest.fixture
def ring(tmp_path):
    return tmp_path / "mic.ring"


def watching(system: FakeSystem, ring, config: SourceConfig = CONFIG) -> Run:
    def work(stop, report):
        with Track(ring, config.buffer_s, report, measure_drift=True) as track:
            DeviceWatch(config, lambda: system, track, stop).run()

    return Run(work)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 5
    while left := set(threading.enumerate()) - before:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def test_callbacks_that_stop_without_a_word_are_noticed(ring):
    """Case 1: 100 blocks of 480 frames, then nothing. Lost within 1 s, and the process lives on."""
    config = CONFIG.model_copy(update={"stale_ms": 800})
    system = FakeSystem([Script(blocks=100), Script(blocks=0)])
    with watching(system, ring, config) as run:
        lost = run.wait_for(DeviceLost)
        seen_s = run.times[run.events.index(lost)]
        assert lost.sample == 48_000
        assert "has delivered nothing for 800 ms" in lost.reason
        assert seen_s - system.streams[0].last_ns * 1e-9 < PATIENCE_S
        run.until(lambda: run.of(CaptureProgress)[-1].capturing is False)
        run.until(lambda: len(system.opened) > 1)  # it tries again
        assert run.running
    assert not ring.exists() and system.closed
    assert 0.8 + 2 * CALM_LOOK_S < 1.0  # one look may just miss the last frame, another just miss the 800 ms


def test_a_replug_under_another_index_is_found_by_name(ring):
    """Case 2: index 2 becomes 5, card 2 becomes 5; one gap as long as the device was away."""
    system = FakeSystem([Script(blocks=50), Script(first_s=0.3)])
    back = dataclasses.replace(MIC, index=5, name="Array: USB Audio (hw:5,0)")
    config = CONFIG.model_copy(update={"device": 2})
    with watching(system, ring, config) as run:
        reader = attach(ring, 0)
        run.wait_for(DeviceOpened)
        system.present = [HDMI, dataclasses.replace(MIC, index=2, name="Other")]
        run.wait_for(DeviceLost)
        run.wait_for(DeviceLost, 2)  # its place is taken, and not by it
        system.present = [HDMI, back]
        reopened = run.wait_for(DeviceOpened, 2)
        gaps = run.of(GapRecorded)
        with reader:
            before = reader.read(10**6)
            after = reader.read(10**6)
    assert system.opened[-1][0] is back and reopened.reopened and reopened.device == back.name
    assert len(gaps) == 1 and gaps[0].sample == len(before.frames) == 24_000
    assert (after.index, after.gap) == (reopened.sample, gaps[0].frames)
    away_ns = system.streams[-1].first_ns - system.streams[0].last_ns
    assert (
        gaps[0].frames == away_ns * 48_000 // 1_000_000_000 - 480
    )  # its first block's own frames were not missed


def test_a_stream_that_ends_by_itself_is_reopened_before_it_is_stale(ring):
    config = CONFIG.model_copy(update={"stale_ms": 60_000})
    system = FakeSystem([Script(blocks=5, then="ends"), Script()])
    with watching(system, ring, config) as run:
        assert "has stopped" in run.wait_for(DeviceLost).reason
        assert run.wait_for(DeviceOpened, 2).reopened


def test_a_single_block_is_a_delivery(ring):
    system = FakeSystem([Script(blocks=1, period_s=0), Script(blocks=0)])
    with watching(system, ring) as run:
        assert run.wait_for(DeviceOpened).sample == 0
        assert run.wait_for(DeviceLost).sample == 480


def test_a_missing_device_is_waited_for(ring):
    system = FakeSystem(present=[HDMI])
    with watching(system, ring) as run:
        reason = run.wait_for(DeviceLost).reason
        assert "'Array'" in reason and "HDMI" in reason
        run.until(lambda: system.refreshed > 3)
        system.present = [HDMI, MIC]
        opened = run.wait_for(DeviceOpened)
        assert len(run.of(DeviceLost)) == 1, "the same reason is said once"
    assert (opened.sample, opened.reopened) == (0, False)
    assert run.of(GapRecorded) == []


def test_a_busy_device_is_tried_again(ring):
    system = FakeSystem(busy=3)
    with watching(system, ring) as run:
        assert "another program holds it" in run.wait_for(DeviceLost).reason
        run.wait_for(DeviceOpened)
        assert len(run.of(DeviceLost)) == 1


def test_a_sleeping_reader_loses_exactly_what_was_overwritten(ring):
    """Case 4: nobody reads for two rings' worth; the device is never held up, and every frame is counted."""
    system = FakeSystem([Script(blocks=500, period_s=0.001)])
    with watching(system, ring) as run:
        reader = attach(ring, 0)
        run.until(lambda: system.streams and system.streams[0].written == 500 * 480)
        with reader:
            block = reader.read(10**6)
            expected = (block.index % 3000) * 10
            assert block.frames[0, 0] == expected
            assert block.lost == block.index  # from 0: all that is no longer there
            assert block.lost + len(block.frames) == 500 * 480
            assert reader.lost_frames == block.lost


def test_one_thousand_overruns_do_not_end_it(ring, caplog):
    """Case 5."""
    system = FakeSystem([Script(blocks=1_000, period_s=0.0005, overrun_every=1), Script(blocks=0)])
    with watching(system, ring) as run:
        run.until(lambda: bool(system.streams) and system.streams[0].written == 1_000 * 480)
        run.until(lambda: run.of(CaptureProgress)[-1].overruns == 1_000)
        assert run.running
    assert 1 <= sum("overran" in record.getMessage() for record in caplog.records) <= 2


def test_a_device_that_takes_48_khz_only(ring):
    """Case 6: whatever the configuration wishes; the front end resamples."""
    system = FakeSystem(accepts=lambda spec: spec.rate_hz == 48_000 and spec.channels <= 4)
    with watching(system, ring, CONFIG.model_copy(update={"rate_hz": 16_000})) as run:
        assert run.wait_for(DeviceOpened).rate_hz == 48_000


def tones(first: int, frames: int, spec: AudioSpec) -> np.ndarray:
    """Channel 0 silent, then 500, 1000 and 1500 Hz at half of full scale."""
    t = (first + np.arange(frames))[:, None] / spec.rate_hz
    hz = np.array([0, 500, 1000, 1500])
    wave = 0.5 * np.sin(2 * np.pi * hz * t)
    if spec.format is SampleFormat.F32:
        return wave.astype(np.float32)
    return (wave * 2 ** (8 * spec.format.sample_bytes - 1)).astype(f"<i{spec.format.sample_bytes}")


@pytest.mark.parametrize("sample_format", [SampleFormat.S16, SampleFormat.S32, SampleFormat.F32])
def test_channels_keep_their_tones_in_every_format(ring, sample_format):
    """Case 7: among them four channels of S32 alone, with channel 0 silent."""
    only = AudioSpec(48_000, 4, sample_format)
    system = FakeSystem(accepts=lambda spec: spec == only, signal=tones)
    with watching(system, ring) as run:
        reader = attach(ring, 0)
        opened = run.wait_for(DeviceOpened)
        with reader:
            heard = read_frames(reader, 4_800).astype(float)
    assert (opened.channels, opened.format) == (4, sample_format.value)
    assert np.all(heard[:, 0] == 0)
    spectrum = np.abs(np.fft.rfft(heard[:, 1:], axis=0))
    assert list(np.argmax(spectrum, axis=0) * 10) == [500, 1000, 1500]


def test_a_device_that_comes_back_with_another_rate(ring):
    system = FakeSystem([Script(blocks=20, then="ends"), Script()])
    with watching(system, ring) as run:
        run.wait_for(DeviceOpened)
        run.wait_for(DeviceLost)
        system.accepts = lambda spec: spec.rate_hz == 16_000 and spec.channels <= 4
        first, second = run.wait_for(DeviceOpened), run.wait_for(DeviceOpened, 2)
        run.until(lambda: bool(run.of(GapRecorded)))
    assert (first.rate_hz, second.rate_hz) == (48_000, 16_000)
    assert second.sample / 16_000 > 20 * 480 / 48_000  # seconds go on
    gap = run.of(GapRecorded)[0]
    assert gap.sample + gap.frames == second.sample


def test_a_format_that_no_retry_can_mend_ends_it(ring):
    system = FakeSystem(accepts=refuse_all)
    with pytest.raises(UnsupportedFormat), watching(system, ring) as run:
        run.until(lambda: not run.running)


def test_a_known_device_that_answers_nonsense_after_a_replug_is_tried_again(ring):
    system = FakeSystem([Script(blocks=5, then="ends"), Script()])
    with watching(system, ring) as run:
        run.wait_for(DeviceOpened)
        takes, system.accepts = system.accepts, refuse_all
        run.wait_for(DeviceLost, 2)
        system.accepts = takes
        run.wait_for(DeviceOpened, 2)


@pytest.mark.parametrize("stop_first", [False, True])
def test_a_driver_that_hangs_ends_the_process_and_leaves_the_ring(ring, stop_first):
    """Closing a stream that does not come back: a second writer beside it would spoil the ring."""
    system = FakeSystem([Script(blocks=5 if not stop_first else None, close_hangs=True)])
    try:
        with pytest.raises(DriverHangs, match="closing 'Array"), watching(system, ring) as run:
            run.wait_for(DeviceOpened)
            if stop_first:
                run.stop.set()
            run.until(lambda: not run.running)
        assert system.abandoned and not system.closed
        assert ring.exists()  # for the next process
    finally:
        system.release.set()


def test_stop_while_the_driver_hangs_looking_for_devices(ring):
    system = FakeSystem(refresh_hangs=True)
    try:
        with pytest.raises(DriverHangs, match="looking for devices"), watching(system, ring) as run:
            run.wait_for(CaptureProgress, 2)  # it goes on reporting
            run.stop.set()
            run.until(lambda: not run.running)
    finally:
        system.release.set()
    assert STOP_TIMEOUT_S + LOOK_S < 2.0  # the promise, whatever hangs


def test_a_report_that_fails_leaves_no_stream_behind(ring):
    """The daemon is gone: its pipe is closed. A callback must not outlive the ring."""
    system = FakeSystem()

    def work(stop, report):
        def refuse(event):
            report(event)
            if isinstance(event, DeviceOpened):
                raise BrokenPipeError

        with Track(ring, 2, refuse) as track:
            DeviceWatch(CONFIG, lambda: system, track, stop).run()

    with pytest.raises(BrokenPipeError), Run(work) as run:
        run.until(lambda: not run.running)
    assert system.closed and not system.streams[0].active and not ring.exists()


def test_stop_is_quick_whatever_it_waits_for(ring):
    system = FakeSystem(present=[DeviceInfo(0, "Other", "ALSA", 1, 48_000)])
    config = CONFIG.model_copy(update={"reopen_ms": 60_000})
    with watching(system, ring, config) as run:
        run.wait_for(DeviceLost)
        run.stop.set()
        run.until(lambda: not run.running)  # not the minute until the next attempt
