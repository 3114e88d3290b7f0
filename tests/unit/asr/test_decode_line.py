"""What waits for the recogniser, without a thread: order, rests, limits."""

import numpy as np
import pytest

from cosyd.asr.decode import Decode, DecodeKind
from cosyd.asr.decode_line import DecodeLine

SHARE = 0.25


def ask(
    number: int, kind: DecodeKind, source: str = "a", utt: int = 0, slack_s: float = 0.0, pause_s: float = 0.0
) -> Decode:
    audio = np.zeros(512, np.float32)
    return Decode(number, source, utt, kind, audio, 0, 512, 0, 1, slack_s=slack_s, pause_s=pause_s)


def taken(line: DecodeLine, now: float) -> list[int]:
    ids = []
    while (waiting := line.take(now)) is not None:
        ids.append(waiting.decode.id)
    return ids


def test_finals_by_their_due_time_then_partials_by_their_age() -> None:
    line = DecodeLine(SHARE)
    line.put(ask(1, "partial", "b"), 0.0)
    line.put(ask(2, "partial", "a"), 0.1)
    line.put(ask(3, "speculative", "c", slack_s=0.5), 0.2)
    line.put(ask(4, "final", "d"), 0.6)
    line.put(ask(5, "final", "e"), 0.8)
    assert taken(line, 1.0) == [4, 3, 5, 1, 2]


def test_a_source_rests_after_a_partial_and_others_do_not() -> None:
    line = DecodeLine(SHARE)
    first = ask(1, "partial")
    line.put(first, 0.0)
    assert taken(line, 0.0) == [1]
    line.decoded(first, 0.1, 0.1)
    line.put(ask(2, "partial"), 0.2)
    line.put(ask(3, "partial", "b"), 0.2)
    assert taken(line, 0.2) == [3]
    assert line.rest(0.2) == pytest.approx(0.2)
    assert taken(line, 0.4 + 1e-9) == [2]
    assert line.rest(0.4) is None


def test_a_partial_that_waits_is_replaced_by_a_fresher_one() -> None:
    """It counts as lost only when both might have been shown, and keeps its place before other sources'."""
    line = DecodeLine(SHARE)
    line.put(ask(1, "partial", pause_s=0.3), 0.0)
    line.put(ask(2, "partial", "b", pause_s=0.3), 0.1)
    line.put(ask(3, "partial", pause_s=0.3), 0.2)
    assert line.coalesced == 0
    assert taken(line, 0.2) == [3, 2]
    line.put(ask(4, "partial", pause_s=0.3), 1.0)
    line.put(ask(5, "partial", pause_s=0.3), 1.3)
    assert line.coalesced == 1
    assert taken(line, 1.3) == [5]


def test_quick_partials_keep_to_their_pause() -> None:
    line = DecodeLine(SHARE)
    line.decoded(ask(1, "partial", pause_s=0.3), 0.02, 1.02)
    line.put(ask(2, "partial", pause_s=0.3), 1.05)
    assert line.rest(1.05) == pytest.approx(0.25)
    assert taken(line, 1.29) == []
    assert taken(line, 1.31) == [2]


def test_finals_make_nobody_rest() -> None:
    line = DecodeLine(SHARE)
    line.decoded(ask(1, "final"), 1.0, 1.0)
    line.put(ask(2, "partial"), 1.0)
    assert taken(line, 1.0) == [2]


def test_there_is_room_up_to_the_limit() -> None:
    line = DecodeLine(SHARE, finals_limit=4)
    rooms = []
    for number in range(4):
        rooms.append((line.has_room, line.half_full))
        line.put(ask(number, "final"), 0.0)
    assert rooms == [(True, False), (True, False), (True, True), (True, True)]
    assert (line.has_room, line.finals) == (False, 4)


def test_what_is_superseded_is_counted() -> None:
    line = DecodeLine(SHARE)
    line.put(ask(1, "partial", utt=3), 0.0)
    line.put(ask(2, "speculative", utt=3), 0.0)
    line.put(ask(3, "speculative", "b", utt=3), 0.0)
    line.supersede("a", 3)
    line.put(ask(4, "final", utt=3), 0.0)
    assert (line.coalesced, taken(line, 1.0)) == (2, [3, 4])


def test_a_source_that_is_gone_does_not_rest_when_it_comes_back() -> None:
    line = DecodeLine(SHARE)
    line.decoded(ask(1, "partial"), 10.0, 10.0)
    line.forget("a")
    line.put(ask(2, "partial"), 10.0)
    assert taken(line, 10.0) == [2]
