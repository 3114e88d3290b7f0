"""What becomes of the workers' reports: messages, states, and no more of them than are worth it."""

from __future__ import annotations

import pytest

from cosyd.config.schema import SourceConfig
from cosyd.publish import messages
from cosyd.runtime import board as board_module
from cosyd.runtime.board import Board
from cosyd.runtime.ipc import Failed, GapSeen, Recognized
from cosyd.runtime.supervision import WorkerState
from cosyd.types import (
    CaptureProgress,
    Checkpoint,
    DeviceLost,
    DeviceOpened,
    Final,
    GapRecorded,
    Partial,
    SpeechEnded,
    SpeechStarted,
)


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1_000.0
        monkeypatch.setattr(board_module.time, "monotonic", lambda: self.now)


class Published(list):
    def of(self, kind):
        return [message for message in self if isinstance(message, kind)]


@pytest.fixture
def published():
    return Published()


@pytest.fixture
def board(published):
    return Board(published.append, lambda name: None, "some-model")


@pytest.fixture
def record(board):
    return board.add(SourceConfig(name="mic"))


OPENED = DeviceOpened(0, "a microphone", 48_000, 4, "s16")


def progress(overruns, lost_frames=0):
    return CaptureProgress(9, True, overruns, lost_frames)


def test_states_follow_the_device(board, record, published):
    board.captured(record, OPENED)
    board.captured(record, DeviceLost(480, "it was unplugged"))
    board.captured(record, GapRecorded(480, 960))
    board.captured(record, DeviceOpened(1440, "a microphone", 48_000, 4, "s16", reopened=True))
    states = [(m.status, m.reason) for m in published.of(messages.State)]
    assert states == [("opening", ""), ("listening", ""), ("lost", "it was unplugged"), ("listening", "")]
    events = [(m.event, m.sample, m.frames) for m in published.of(messages.Device)]
    assert events == [("opened", 0, 0), ("lost", 480, 0), ("gap", 480, 960), ("opened", 1440, 0)]


def test_the_same_state_is_not_published_twice(board, record, published):
    for _ in range(3):
        board.captured(record, DeviceLost(0, "no such device"))
    assert [m.status for m in published.of(messages.State)] == ["opening", "lost"]


def test_overruns_are_told_by_difference_and_not_too_often(board, record, published, monkeypatch):
    clock = Clock(monkeypatch)
    board.captured(record, OPENED)
    board.captured(record, progress(1, 100))
    for number in range(2, 6):
        clock.now += 1
        board.captured(record, progress(number, 100 * number))
    clock.now += 10
    board.captured(record, progress(6, 600))
    board.captured(record, progress(6, 600))
    overruns = [m.frames for m in published.of(messages.Device) if m.event == "overrun"]
    assert overruns == [100, 500]
    assert record.overruns == 6


def test_a_new_ring_counts_overruns_from_zero(board, record, published, monkeypatch):
    clock = Clock(monkeypatch)
    board.captured(record, progress(5, 500))
    clock.now += 20
    board.captured(record, progress(1, 7))
    overruns = [m.frames for m in published.of(messages.Device) if m.event == "overrun"]
    assert overruns == [500, 7]


def recognized(event):
    return Recognized("mic", event, Checkpoint(7, 2), 48_000, board_module.time.monotonic_ns(), 0.9)


def test_texts_are_in_seconds_of_the_source_clock(board, record, published):
    board.recognised(record, recognized(SpeechStarted(48_000, 1)))
    board.recognised(record, recognized(Partial(1, "hello wor", "hello", 48_000, 96_000)))
    board.recognised(record, recognized(Final(1, "hello world", 48_000, 120_000, "silence", 130_000)))
    vad, partial, final = published[-3:]
    assert (vad.event, vad.utt, vad.sample) == ("start", 1, 48_000)
    assert (partial.text, partial.stable, partial.start, partial.end) == ("hello wor", "hello", 1.0, 2.0)
    assert (final.text, final.end, final.reason, final.model) == ("hello world", 2.5, "silence", "some-model")
    assert record.checkpoint == Checkpoint(7, 2)


def test_what_a_second_recogniser_hears_again_of_a_sentence_is_not_told_again(board, record, published):
    started, ended = SpeechStarted(48_000, 1), SpeechEnded(96_000, 1)
    once_more, over = SpeechStarted(100_000, 1), SpeechEnded(150_000, 1)
    for event in (started, ended, once_more, over):
        board.recognised(record, recognized(event))
    for event in (over, started, ended, once_more, over):  # from the sentence's beginning, or only its end
        board.recognised(record, recognized(event))
    board.recognised(record, recognized(SpeechStarted(200_000, 2)))
    told = [(vad.event, vad.sample) for vad in published.of(messages.Vad)]
    assert told == [
        ("start", 48_000),
        ("end", 96_000),
        ("start", 100_000),
        ("end", 150_000),
        ("start", 200_000),
    ]


def test_an_empty_final_settles_but_is_not_published(board, record, published):
    before = len(published)
    latency = board.recognised(record, recognized(Final(1, "", 0, 1, "no_speech", 1)))
    assert latency is None
    assert len(published) == before
    assert record.checkpoint == Checkpoint(7, 2)


def test_muted_it_says_so_whenever_it_would_listen(board, record, published):
    board.captured(record, OPENED)
    board.mute(record, True)
    board.captured(record, DeviceLost(1, "gone"))
    board.captured(record, OPENED)
    board.mute(record, False)
    statuses = [m.status for m in published.of(messages.State)]
    assert statuses == ["opening", "listening", "muted", "lost", "muted", "listening"]


def test_a_worker_that_gave_up_fails_its_source_and_is_reported(board, record, published):
    class Worker:
        failure = Failed("there is no file x.wav", 3)

    record.worker = Worker()
    board.worker_state(record, WorkerState.FAILED)
    assert published.of(messages.State)[-1].status == "failed"
    (health,) = published.of(messages.Health)
    assert (health.code, health.severity, health.message) == (
        "source_failed",
        "error",
        "there is no file x.wav",
    )


def test_only_what_was_lost_is_an_overrun(board, record, published):
    board.saw_gap(record, GapSeen("mic", 100, gap=50, lost=0))
    board.saw_gap(record, GapSeen("mic", 200, gap=0, lost=30))
    assert [(m.event, m.frames) for m in published.of(messages.Device)] == [("overrun", 30)]


def test_a_removed_source_is_forgotten(published):
    forgotten = []
    board = Board(published.append, forgotten.append, "some-model")
    record = board.add(SourceConfig(name="mic"))
    board.remove(record)
    assert published.of(messages.State)[-1].status == "stopped"
    assert forgotten == ["mic"]
    assert not board.records
