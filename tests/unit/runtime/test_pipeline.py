"""Rings in, events out: gaps, losses, ends, mutes and restarts, each with its exact numbers."""

from __future__ import annotations

import os

import numpy as np
import pytest
from pipeline_fakes import START, running, silence, tone

from cosyd.config.schema import SourceConfig
from cosyd.ring import RingWriter
from cosyd.runtime.feed import IDLE_BLOCKS, LATE_S, LEAP_SHARE, STEADY_BLOCKS, Feed
from cosyd.runtime.ipc import Drained, GapSeen, Heard, Recognized, Removed
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import Checkpoint, SpeechEnded, SpeechStarted

BLOCK_S = FRAME.block_ms / 1000
BUFFER_S = 10.0


@pytest.fixture(params=[16_000, 48_000])
def rate_hz(request):
    return request.param


@pytest.fixture
def ring_path(request):
    path = f"/dev/shm/cosyd-test-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}.ring"
    yield path
    assert not os.path.exists(path)  # noqa: PTH110  (a leak is an error)


@pytest.fixture
def ring(ring_path, rate_hz):
    with RingWriter.open(ring_path, AudioSpec(rate_hz, 1, SampleFormat.S16), BUFFER_S) as writer:
        yield writer


def say(ring, *stretches):
    """Write stretches of ("tone" or "silence", seconds)."""
    for kind, seconds in stretches:
        make = tone if kind == "tone" else silence
        ring.write(make(seconds, ring.spec.rate_hz))


def test_speech_and_silence_make_one_final(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("silence", 1.0), ("tone", 1.5), ("silence", 1.5))
        run.settle(lambda: run.finals())
        (final,) = run.finals()
        rate = ring.spec.rate_hz
        assert final.reason == "silence"
        assert final.start_sample == pytest.approx(1.0 * rate, abs=BLOCK_S * rate)
        assert final.end_sample == pytest.approx(2.5 * rate, abs=2 * BLOCK_S * rate)
        assert final.text.startswith("w0 w1")
        kinds = [type(m.event) for m in run.of(Recognized)]
        assert kinds.count(SpeechStarted) == kinds.count(SpeechEnded) == 1
        assert not run.of(GapSeen)


def test_a_gap_ends_the_utterance_and_is_counted_exactly(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("silence", 0.5), ("tone", 1.0))
        ring.skip(12_345)
        say(ring, ("tone", 1.0), ("silence", 1.5))
        run.settle(lambda: len(run.finals()) == 2)
        assert [f.reason for f in run.finals()] == ["gap", "silence"]
        (seen,) = run.of(GapSeen)
        assert (seen.gap, seen.lost) == (12_345, 0)
        assert seen.sample == round(1.5 * ring.spec.rate_hz) + 12_345
        assert run.finals()[1].start_sample >= seen.sample


def test_what_the_ring_could_not_keep_is_counted_exactly(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        run.settle()
        say(ring, ("silence", BUFFER_S), ("silence", 3.0))
        run.settle()
        lost = sum(seen.lost for seen in run.of(GapSeen))
        leap = ring.capacity // LEAP_SHARE  # so that it is not lapped again while it catches up
        assert lost >= 3.0 * ring.spec.rate_hz - ring.spec.frames(1.0) + leap
        progress = run.pipeline.progress().sources["talk"]
        assert round(progress.audio_s * ring.spec.rate_hz) + lost == progress.sample
        assert ring.write_index - progress.sample < IDLE_BLOCKS * BLOCK_S * ring.spec.rate_hz


def test_the_end_of_the_stream_is_recognised_to_its_last_sample(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("silence", 0.5), ("tone", 1.0))
        run.settle()
        ring.close()
        run.settle(lambda: run.of(Drained))
        (final,) = run.finals()
        assert final.reason == "end_of_stream"
        assert final.end_sample == pytest.approx(1.5 * ring.spec.rate_hz, abs=2 * BLOCK_S * ring.spec.rate_hz)


def test_closed_on_purpose_the_reason_is_shutdown(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("tone", 1.0))
        run.settle()
        run.pipeline.expect_close("talk")
        ring.close()
        run.settle(lambda: run.finals())
        assert run.finals()[0].reason == "shutdown"


def test_a_lost_device_ends_the_utterance(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("tone", 1.0))
        run.pipeline.lose_source("talk")
        run.settle(lambda: run.finals())
        assert run.finals()[0].reason == "device_lost"
        # It comes back after two seconds that nobody captured; the clock has run on.
        ring.skip(2 * ring.spec.rate_hz)
        say(ring, ("silence", 0.5), ("tone", 1.0), ("silence", 1.5))
        run.settle(lambda: len(run.finals()) == 2)
        again = run.finals()[1]
        assert again.utt == 2
        assert again.start_sample == pytest.approx(3.5 * ring.spec.rate_hz, abs=BLOCK_S * ring.spec.rate_hz)


def test_muted_nothing_is_said(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("tone", 1.0))
        run.settle()
        run.pipeline.set_muted("talk", True)
        run.settle(lambda: run.finals())
        assert run.finals()[0].reason == "muted"
        say(ring, ("tone", 1.0), ("silence", 1.5))
        run.settle()
        assert len(run.finals()) == 1
        run.pipeline.set_muted("talk", False)
        say(ring, ("silence", 0.5), ("tone", 1.0), ("silence", 1.5))
        run.settle(lambda: len(run.finals()) == 2)
        assert run.finals()[1].start_sample >= 3.5 * ring.spec.rate_hz


@pytest.mark.parametrize("spoken_s", [0.7, 1.6])
def test_a_successor_takes_up_the_open_utterance(ring, ring_path, spoken_s):
    """Killed in the middle of a sentence, the next recogniser publishes it whole, once."""
    with running() as first:
        first.add(ring_path, START)
        say(ring, ("silence", 1.5), ("tone", spoken_s))
        first.settle()
        checkpoint = first.pipeline.progress().sources["talk"].checkpoint
        started = [m.event for m in first.of(Recognized) if isinstance(m.event, SpeechStarted)]
        assert len(started) == 1
        assert not first.finals()
        with running() as second:  # the first one is not closed: it is as if gone
            second.add(ring_path, checkpoint)
            say(ring, ("tone", 2.0 - spoken_s), ("silence", 1.5))
            second.settle(lambda: second.finals())
            (final,) = second.finals()
            assert final.utt == started[0].utt
            assert final.start_sample == pytest.approx(started[0].sample, abs=BLOCK_S * ring.spec.rate_hz)
            assert final.end_sample == pytest.approx(
                3.5 * ring.spec.rate_hz, abs=2 * BLOCK_S * ring.spec.rate_hz
            )
            assert not [m for m in second.of(Recognized) if isinstance(m.event, SpeechStarted)]


def test_between_utterances_a_successor_repeats_nothing(ring, ring_path):
    with running() as first:
        first.add(ring_path, START)
        say(ring, ("tone", 1.0), ("silence", 3.0))
        first.settle(lambda: first.finals())
        first.settle()
        checkpoint = first.pipeline.progress().sources["talk"].checkpoint
        assert checkpoint.utt == 2
        with running() as second:
            second.add(ring_path, checkpoint)
            say(ring, ("tone", 1.0), ("silence", 1.5))
            second.settle(lambda: second.finals())
            second.settle()
            assert [f.utt for f in second.finals()] == [2]


@pytest.mark.parametrize(("before_hz", "after_hz"), [(16_000, 48_000), (48_000, 16_000)])
def test_a_ring_of_another_format_is_followed(ring_path, before_hz, after_hz):
    """The device comes back at another rate, at the same second: nothing is lost, the seconds go on."""
    with running() as run:
        with RingWriter.open(ring_path, AudioSpec(before_hz, 1, SampleFormat.S16), BUFFER_S) as ring:
            run.add(ring_path, START)
            say(ring, ("tone", 1.0))
            run.settle()
        after = AudioSpec(after_hz, 1, SampleFormat.S16)
        with RingWriter.open(ring_path, after, BUFFER_S, start_index=after_hz) as ring:
            say(ring, ("silence", 0.5), ("tone", 1.0), ("silence", 1.5))
            run.settle(lambda: len(run.finals()) == 2)
        first, second = (m for m in run.of(Recognized) if m.event in run.finals())
        assert (first.rate_hz, second.rate_hz) == (before_hz, after_hz)
        assert second.event.start_sample / after_hz == pytest.approx(1.5, abs=BLOCK_S)
        assert second.event.utt == 2
        assert not run.of(GapSeen)


def test_a_level_is_of_one_format(ring_path):
    """The device comes back with two channels in the middle of a period."""
    with running(publish={"level_ms": 1_000}) as run:
        for channels, start in ((1, 0), (2, 16_000)):
            spec = AudioSpec(16_000, channels, SampleFormat.S16)
            with RingWriter.open(ring_path, spec, BUFFER_S, start_index=start) as ring:
                if channels == 1:
                    run.add(ring_path, START)
                for _ in range(8 * channels):
                    ring.write(np.zeros((1_600, channels), np.int16))
                    run.settle()
        assert [len(message.level.rms_db) for message in run.of(Heard)] == [2]


@pytest.mark.parametrize("left_blocks", [0, 1, 2, 3])
def test_a_lost_device_ends_the_utterance_whatever_is_unread(ring, ring_path, left_blocks):
    """The device's last blocks of 10 ms need not fill a block of the front end."""
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("tone", 0.96))
        run.settle()
        for _ in range(left_blocks):
            say(ring, ("tone", 0.01))
        run.pipeline.lose_source("talk")
        run.settle(lambda: run.finals())
        assert run.finals()[0].reason == "device_lost"


def test_a_loss_is_told_also_when_the_device_is_back_at_once(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("tone", 1.0))
        run.settle()
        run.pipeline.lose_source("talk")
        ring.skip(100)
        say(ring, ("tone", 1.0), ("silence", 1.5))
        run.settle(lambda: len(run.finals()) == 2)
        assert [f.reason for f in run.finals()] == ["device_lost", "silence"]


def test_many_sources_are_all_read(ring, ring_path):
    with running(frontend={"denoise": "off", "remove_dc": False, "max_streams": 40}) as run:
        for number in range(31):  # a ring has room for 32 readers
            run.add(ring_path, START, name=f"talk{number}")
        say(ring, ("silence", 1.0))
        run.settle()
        heard = [source.audio_s for source in run.pipeline.progress().sources.values()]
        assert min(heard) > 0.9


def test_what_was_said_while_muted_stays_unsaid_after_a_crash(ring, ring_path):
    with running() as first:
        first.add(ring_path, START)
        say(ring, ("silence", 0.5))
        first.settle()
        first.pipeline.set_muted("talk", True)
        say(ring, ("silence", 0.3), ("tone", 1.0), ("silence", 1.5))
        first.settle()
        checkpoint = first.pipeline.progress().sources["talk"].checkpoint
        with running() as second:  # the successor, unmuted meanwhile
            second.add(ring_path, checkpoint)
            say(ring, ("silence", 1.5))
            second.settle()
            assert not second.finals()


def test_unmuted_it_listens_from_now_on(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        run.settle()
        run.pipeline.set_muted("talk", True)
        say(ring, ("tone", 1.0))  # not read yet when it is unmuted
        run.pipeline.set_muted("talk", False)
        say(ring, ("silence", 1.5))
        run.settle()
        assert not run.finals()


def test_removed_a_source_is_recognised_to_what_is_unread(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("silence", 0.5), ("tone", 0.5))
        run.settle()
        say(ring, ("tone", 1.0))
        run.pipeline.remove_source("talk")
        (final,) = run.finals()
        assert final.end_sample == pytest.approx(2.0 * ring.spec.rate_hz, abs=2 * BLOCK_S * ring.spec.rate_hz)


def test_removing_a_source_publishes_what_is_open(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("tone", 1.0))
        run.settle()
        run.pipeline.remove_source("talk")
        assert run.finals()[0].reason == "shutdown"
        assert isinstance(run.emitted[-1], Removed)
        run.pipeline.remove_source("talk")  # once more does no harm


def test_levels_come_at_their_pace(ring, ring_path):
    with running(publish={"level_ms": 100}) as run:
        run.add(ring_path, START)
        for kind in ("silence", "tone"):
            for _ in range(5):  # in pieces: a reading takes up to half a second at once when it is behind
                say(ring, (kind, 0.2))
                run.settle()
        levels = [m.level for m in run.of(Heard)]
        assert 6 <= len(levels) <= 20
        assert levels[0].rms_db[0] == -120.0
        assert levels[-1].peak_db[0] == pytest.approx(-10.5, abs=0.1)  # 0.3 of full scale
        assert levels[-1].rms_db[0] == pytest.approx(-13.5, abs=0.1)  # 3 dB below it: a sine


def test_a_ring_that_comes_later_is_found(ring_path):
    with running() as run:
        run.add(ring_path, Checkpoint())
        run.settle()
        with RingWriter.open(ring_path, AudioSpec(16_000, 1, SampleFormat.S16), BUFFER_S) as ring:
            run.settle(lambda: run.pipeline.turn(0.02) or True)
            say(ring, ("silence", 0.1))
            deadline = 200
            while not run.pipeline.progress().sources["talk"].audio_s and deadline:
                run.pipeline.turn(0.02)
                say(ring, ("silence", 0.05))
                deadline -= 1
            assert deadline


def test_silence_is_looked_at_some_blocks_together_and_pauses_block_by_block(ring, ring_path):
    with running() as run:
        run.add(ring_path, START)
        say(ring, ("silence", 1.0))
        run.settle()
        say(ring, ("silence", BLOCK_S * 1.5))
        run.settle()
        behind = run.pipeline.progress().sources["talk"].behind_s
        assert behind >= BLOCK_S  # one block alone is not worth waking up for
        say(ring, ("silence", BLOCK_S * IDLE_BLOCKS))
        run.settle()
        assert run.pipeline.progress().sources["talk"].behind_s < BLOCK_S * IDLE_BLOCKS
        say(ring, ("tone", 1.0))
        run.settle()
        for _ in range(STEADY_BLOCKS):
            say(ring, ("tone", BLOCK_S))
            run.settle()
        assert run.pipeline.progress().sources["talk"].behind_s < BLOCK_S * STEADY_BLOCKS
        say(ring, ("silence", 2 * BLOCK_S * STEADY_BLOCKS))
        run.settle()
        for _ in range(10):  # nothing of a pause waits, for it may be the end of the utterance
            say(ring, ("silence", BLOCK_S))
            run.settle()
            assert run.pipeline.progress().sources["talk"].behind_s < BLOCK_S


def test_a_source_is_due_when_the_rest_of_a_block_is_and_overdue_when_nothing_comes(ring, ring_path):
    feed = Feed(SourceConfig(name="talk", type="file", path="unused"), ring_path, START, False, 0)
    assert feed.attach()
    try:
        say(ring, ("silence", BLOCK_S))
        assert feed.ready
        assert feed.read(1.0) is not None
        say(ring, ("silence", BLOCK_S / 2))
        assert not feed.ready
        assert 0 < feed.due_s <= BLOCK_S / 2 + LATE_S + 1 / ring.spec.rate_hz
        assert feed.read(1.0) is not None
        assert BLOCK_S / 2 < feed.due_s <= BLOCK_S + LATE_S
        feed.read_at -= 1.0  # a second ago
        assert feed.due_s is None
        say(ring, ("silence", BLOCK_S / 2))
        assert feed.due_s <= BLOCK_S / 2 + LATE_S + 1 / ring.spec.rate_hz
    finally:
        feed.close()
