"""The source clock over losses, restarts and changes of format, by a clock that the test sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.capture.track import Track
from cosyd.errors import RingError
from cosyd.ring import RingReader, RingWriter, WriterState
from cosyd.spec import AudioSpec, SampleFormat
from cosyd.types import CaptureProgress, DeviceLost, DeviceOpened, GapRecorded, SourceEnded

SPEC = AudioSpec(48_000, 2, SampleFormat.S16)
OTHER = AudioSpec(44_100, 2, SampleFormat.S16)
SECOND = 1_000_000_000
T0 = 5 * SECOND


class Clock:
    def __init__(self) -> None:
        self.ns = T0

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def events():
    return []


@pytest.fixture
def track(tmp_path, clock, events):
    with Track(tmp_path / "mic.ring", 4.0, events.append, measure_drift=True, now_ns=clock) as track:
        yield track


def capture(track: Track, clock: Clock, seconds: float) -> None:
    """Frames for ``seconds``, the last one captured at the end of it."""
    spec = track.ring.spec
    clock.ns += round(seconds * SECOND)
    track.ring.write(np.zeros((spec.frames(seconds), spec.channels), np.int16), clock.ns)


def without_progress(events):
    return [event for event in events if not isinstance(event, CaptureProgress)]


def test_a_loss_leaves_one_gap_of_exactly_the_missed_frames(track, clock, events, tmp_path):
    track.prepare(SPEC)
    track.catch_up()
    capture(track, clock, 1.0)
    track.opened("mic")
    reader = RingReader.attach(tmp_path / "mic.ring", position=0)
    clock.ns += SECOND // 4
    track.lost("gone")
    clock.ns += SECOND // 2
    track.catch_up()  # an opening that fails
    clock.ns += SECOND // 4
    track.prepare(SPEC)
    track.catch_up()
    capture(track, clock, 0.5)
    track.opened("mic")
    assert events == [
        DeviceOpened(0, "mic", 48_000, 2, "s16", False),
        DeviceLost(48_000, "gone"),
        GapRecorded(48_000, 48_000),
        DeviceOpened(96_000, "mic", 48_000, 2, "s16", True),
    ]
    with reader:
        assert (first := reader.read(10**6)).index == 0 and len(first.frames) == 48_000
        after = reader.read(10**6)
        assert (after.index, after.gap, len(after.frames)) == (96_000, 48_000, 24_000)
        assert reader.lost_frames == 0
        assert reader.time_ns(96_000 + 24_000 - 1) == clock.ns


def test_armed_the_time_until_the_first_block_belongs_to_the_gap(track, clock, events, tmp_path):
    track.prepare(SPEC)
    track.arm()
    assert track.resume_at is None
    capture(track, clock, 1.0)
    track.opened("mic")
    reader = RingReader.attach(tmp_path / "mic.ring", position=0)
    track.lost("gone")
    clock.ns += SECOND
    track.arm()  # an opening that fails
    clock.ns += SECOND
    track.prepare(SPEC)
    track.arm()
    clock.ns += SECOND // 2  # the device takes its time
    assert (track.resume_at, track.index) == (None, 48_000)
    capture(track, clock, 0.01)
    assert track.resume_at == 168_000
    track.opened("mic")
    assert events[2:] == [
        GapRecorded(48_000, 120_000),
        DeviceOpened(168_000, "mic", 48_000, 2, "s16", True),
    ]
    with reader:
        reader.read(10**6)
        after = reader.read(10**6)
        assert (after.index, after.gap, after.lost) == (168_000, 120_000, 0)
        assert reader.time_ns(168_480 - 1) == clock.ns


def test_armed_and_never_delivering_the_clock_goes_on_at_another_rate(track, clock, events):
    track.prepare(SPEC)
    capture(track, clock, 1.0)
    track.opened("mic")
    track.lost("gone")
    clock.ns += SECOND
    track.arm()
    clock.ns += SECOND
    assert track.prepare(OTHER).write_index == 44_100
    track.arm()
    clock.ns += SECOND
    capture(track, clock, 0.1)
    track.opened("mic")
    assert GapRecorded(44_100, 3 * 44_100) in events


def test_the_gap_before_an_opening_that_fails_after_all_is_told(track, clock, events):
    track.prepare(SPEC)
    capture(track, clock, 1.0)
    track.opened("mic")
    track.lost("gone")
    clock.ns += SECOND
    track.arm()
    capture(track, clock, 0.01)  # while it is being started, which then fails
    clock.ns += SECOND
    track.arm()
    capture(track, clock, 0.01)
    track.opened("mic")
    assert events[2:-1] == [GapRecorded(48_000, 48_000), GapRecorded(96_480, 48_000)]


def test_opened_needs_a_frame(track):
    track.prepare(SPEC)
    track.arm()
    with pytest.raises(RingError, match="before a frame came"):
        track.opened("mic")


def test_a_frame_that_comes_while_the_lost_device_is_closed_is_no_gap(track, clock, events):
    track.prepare(SPEC)
    capture(track, clock, 1.0)
    track.opened("mic")
    clock.ns += SECOND
    track.lost("gone")
    capture(track, clock, 0.5)  # its index is 48,000: the clock could not know better
    clock.ns += SECOND
    track.catch_up()
    track.opened("mic")
    assert GapRecorded(72_000, 48_000) in events


def test_another_rate_goes_on_at_the_same_second(track, clock, events, tmp_path):
    track.prepare(SPEC)
    capture(track, clock, 1.0)
    track.opened("mic")
    track.lost("gone")
    clock.ns += 2 * SECOND
    ring = track.prepare(OTHER)
    track.catch_up()
    capture(track, clock, 0.1)
    track.opened("mic")
    assert ring.spec == OTHER and ring.path == tmp_path / "mic.ring"
    assert without_progress(events)[2:] == [
        GapRecorded(44_100, 2 * 44_100),
        DeviceOpened(3 * 44_100, "mic", 44_100, 2, "s16", True),
    ]


def killed(path, spec=SPEC, frames=24_000, t_ns=T0):
    """A ring as a killed process leaves it, within this process: its handle is gone, the file is not."""
    writer = RingWriter.open(path, spec, 4.0)
    writer.write(np.ones((frames, spec.channels), np.int16), t_ns)
    writer.close(unlink=False)


def test_the_ring_of_a_killed_process_goes_on(track, clock, events, tmp_path):
    killed(tmp_path / "mic.ring")
    clock.ns = T0 + 3 * SECOND
    ring = track.prepare(SPEC)
    assert ring.adopted
    track.catch_up()
    capture(track, clock, 0.1)
    track.opened("mic")
    gap, opened = without_progress(events)
    assert gap.sample == 24_000
    assert gap.frames == pytest.approx(3 * 48_000, abs=1)  # the next frame was due 1 frame after the last
    assert opened.reopened and opened.sample == gap.sample + gap.frames


def test_the_ring_of_a_killed_process_with_another_rate(track, clock, events, tmp_path):
    killed(tmp_path / "mic.ring")
    clock.ns = T0 + SECOND
    ring = track.prepare(OTHER)
    assert not ring.adopted
    track.catch_up()
    capture(track, clock, 0.1)
    track.opened("mic")
    gap, opened = without_progress(events)
    assert gap.sample == 22_050 and gap.frames == pytest.approx(44_100, abs=2)
    assert opened.sample == gap.sample + gap.frames and opened.reopened


def test_the_ring_of_a_killed_process_of_another_size(track, clock, events, tmp_path):
    RingWriter.open(tmp_path / "mic.ring", SPEC, 9.0, start_index=777).close(unlink=False)
    ring = track.prepare(SPEC)
    assert not ring.adopted and ring.write_index == 777


def test_the_clock_goes_on_from_a_failed_opening_at_the_old_rate(track, clock, events):
    track.prepare(SPEC)
    capture(track, clock, 1.0)
    track.opened("mic")
    track.lost("gone")
    clock.ns += SECOND
    track.catch_up()  # starting it fails
    clock.ns += SECOND
    assert track.prepare(OTHER).write_index == 2 * 44_100
    track.catch_up()
    assert track.index == 3 * 44_100
    track.opened("mic")
    assert GapRecorded(44_100, 2 * 44_100) in events


def test_first_opening_has_no_gap_however_long_it_took(track, clock, events):
    track.lost("no such device")
    clock.ns += 60 * SECOND
    track.prepare(SPEC)
    track.catch_up()
    capture(track, clock, 0.1)
    track.opened("mic")
    assert events == [DeviceLost(0, "no such device"), DeviceOpened(0, "mic", 48_000, 2, "s16", False)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([SPEC, OTHER]),
            st.integers(1, 400),  # ms of audio
            st.integers(0, 5_000),  # ms away
            st.sampled_from([None, Track.catch_up, Track.arm]),  # an opening that fails half way
            st.sampled_from([Track.catch_up, Track.arm]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_happens_the_clock_keeps_the_time(tmp_path_factory, story):
    """Each second of the machine is a second of the source clock, in audio or in gaps; it never goes back."""
    clock, events, seconds = Clock(), [], -1.0
    with Track(tmp_path_factory.mktemp("story") / "mic.ring", 2.0, events.append, now_ns=clock) as track:
        for spec, audio_ms, away_ms, failing, go_on in story:
            track.prepare(spec)
            if failing:
                failing(track)
                clock.ns += 30_000_000
                track.prepare(spec)
            go_on(track)
            capture(track, clock, audio_ms / 1000)
            track.opened("mic")
            assert track.index / spec.rate_hz > seconds
            seconds = track.index / spec.rate_hz
            clock.ns += away_ms * 1_000_000
            track.lost("gone")
    began_ns = T0 + (30_000_000 if story[0][3] else 0)  # before the first frame there is no clock
    ended_ns = clock.ns - story[-1][2] * 1_000_000
    assert seconds == pytest.approx((ended_ns - began_ns) * 1e-9, abs=3e-5 * 2 * len(story))
    opened = [event for event in events if isinstance(event, DeviceOpened)]
    gaps = {event.sample + event.frames for event in events if isinstance(event, GapRecorded)}
    starts = {event.sample for event in opened}
    assert len(opened) == len(story) and gaps <= starts


def test_progress_tells_overruns_and_drift(track, clock, events, caplog):
    track.prepare(SPEC)
    track.catch_up()
    capture(track, clock, 0.1)
    track.opened("mic")
    for _ in range(120):  # a device that delivers 100 ppm more than it should
        clock.ns += SECOND
        track.ring.write(np.zeros((48_005, 2), np.int16)[:48_005], clock.ns - SECOND // 48_005)
        track.tick()
    progress = events[-1]
    assert progress.capturing and progress.drift_ppm == pytest.approx(104.2, abs=1)
    for _ in range(1_000):
        track.ring.count_overrun(7)
    clock.ns += SECOND
    track.tick()
    progress = events[-1]
    assert (progress.overruns, progress.lost_frames) == (1_000, 7_000)
    assert progress.drift_ppm is None  # an overrun is no drift: the regression starts afresh
    assert [r.getMessage() for r in caplog.records if "overran" in r.getMessage()] == [
        "mic.ring: the device overran 1000 times (1000 so far)"
    ]
    seconds = [event.sample for event in events if isinstance(event, CaptureProgress)]
    assert seconds == sorted(seconds) and len(seconds) == 121


def test_counters_survive_a_change_of_format(track, clock, events):
    track.prepare(SPEC)
    capture(track, clock, 0.5)
    track.opened("mic")
    track.ring.count_overrun(100)
    track.lost("gone")
    track.prepare(OTHER)
    track.ring.count_overrun(50)
    track.tick()
    assert (events[-1].overruns, events[-1].lost_frames) == (2, 150)


def test_the_ring_is_removed_at_the_end(tmp_path):
    path = tmp_path / "mic.ring"
    with Track(path, 2.0, lambda event: None) as track:
        track.prepare(SPEC)
        assert path.exists()
    assert not path.exists()
    track.close()


def test_the_ring_of_a_source_that_has_ended_stays(tmp_path):
    path, events = tmp_path / "mic.ring", []
    with Track(path, 2.0, events.append) as track:
        track.prepare(SPEC).write(np.zeros((480, 2), np.int16))
        assert not track.ended_before()
        track.ended()
        assert track.ended_before()
    with RingReader.attach(path, position=0) as reader:
        assert reader.writer is WriterState.CLOSED and len(reader.read(1_000).frames) == 480
    assert events == [SourceEnded(480), SourceEnded(480)]
