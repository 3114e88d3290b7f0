"""What a recogniser sends: results at once, levels together with the report of progress."""

from __future__ import annotations

from cosyd.runtime.feed import IDLE_BLOCKS, LATE_S
from cosyd.runtime.ipc import Drained, Heard, RecognitionProgress
from cosyd.runtime.recognition_worker import TURN_S, Outbox
from cosyd.spec import FRAME
from cosyd.types import Level

PROGRESS = RecognitionProgress({}, 0, 0, 0.0, 0, 0.0)


def heard(sample: int) -> Heard:
    return Heard("mic", Level(sample, (-60.0,), (-50.0,), 0.1, False))


def test_results_are_not_kept_waiting_by_levels() -> None:
    sent: list[object] = []
    outbox = Outbox(sent.append)
    outbox.emit(heard(1))
    outbox.emit(Drained("mic"))
    assert sent == [Drained("mic")] and outbox.waiting
    outbox.flush(PROGRESS)
    assert sent[1:] == [(heard(1), PROGRESS)] and not outbox.waiting


def test_nothing_is_sent_where_there_is_nothing() -> None:
    sent: list[object] = []
    outbox = Outbox(sent.append)
    outbox.flush()
    outbox.emit(heard(1))
    outbox.emit(heard(2))
    outbox.flush()
    outbox.flush()
    assert sent == [(heard(1), heard(2))]


def test_a_wait_for_a_look_in_silence_is_not_cut_in_two() -> None:
    assert IDLE_BLOCKS * FRAME.block_ms / 1000 + LATE_S < TURN_S
