"""Exactly once and in order, whatever is lost: the rules alone, then against a simulated daemon."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.publish.messages import AnyMessage, AsrFinal, AsrPartial, Device, State, matches
from cosyd.publish.ordering import Ordering, Replay


def final(seq: int, n: int, kept: int, boot: str = "a") -> AsrFinal:
    return AsrFinal(
        source="mic", seq=seq, n=n, kept=kept, boot=boot, utt=n, text="", start=0, end=0, reason="silence"
    )


def state(seq: int, kept: int, boot: str = "a") -> State:
    return State(source="mic", seq=seq, n=1, boot=boot, status="listening", kept=kept)


def numbers(messages: list[AnyMessage]) -> list[int]:
    return [message.seq for message in messages]


def test_starts_with_what_is_live() -> None:
    ordering = Ordering(("asr.",), None)
    assert ordering.live(state(10, 9)) == []
    assert ordering.replay is None
    assert numbers(ordering.live(final(11, 4, kept=9))) == [11]
    assert ordering.settled == 11


def test_loss_is_asked_for_before_the_next_is_handed_on() -> None:
    ordering = Ordering(("asr.",), None)
    assert numbers(ordering.live(final(10, 4, kept=3))) == [10]
    assert numbers(ordering.live(final(12, 5, kept=10))) == [12]
    assert ordering.live(final(20, 8, kept=17)) == []
    assert ordering.replay == Replay(12, 20)
    kept = [final(14, 6, kept=12), final(17, 7, kept=14)]
    assert numbers(ordering.replayed(kept, 19, more=False)) == [14, 17, 20]
    assert ordering.replay is None
    assert ordering.lost == 0
    assert numbers(ordering.live(final(21, 9, kept=20))) == [21]


def test_pages() -> None:
    ordering = Ordering(("asr.",), 0)
    assert ordering.live(final(9, 3, kept=5)) == []
    assert numbers(ordering.replayed([final(2, 1, kept=0)], 3, more=True)) == [2]
    assert ordering.replay == Replay(3, 9)
    assert numbers(ordering.replayed([final(5, 2, kept=2)], 8, more=False)) == [5, 9]


def test_a_page_that_does_not_advance_ends_the_replay() -> None:
    ordering = Ordering(("asr.",), 5)
    ordering.live(final(9, 3, kept=7))
    assert numbers(ordering.replayed([], 5, more=True)) == [9]
    assert ordering.replay is None


def test_what_is_not_kept_any_more_is_counted() -> None:
    ordering = Ordering(("asr.",), None)
    ordering.live(final(10, 4, kept=3))
    ordering.live(final(20, 8, kept=17))
    assert numbers(ordering.replayed([final(17, 7, kept=16)], 19, more=False)) == [17, 20]
    assert ordering.lost == 2


def test_what_was_never_kept_is_counted() -> None:
    """The journal failed and the message was missed: nobody has it."""
    ordering = Ordering(("asr.",), None)
    ordering.live(final(10, 4, kept=3))
    assert numbers(ordering.live(final(20, 8, kept=10))) == [20]
    assert ordering.lost == 3


def test_a_restart() -> None:
    ordering = Ordering(("asr.",), None)
    ordering.live(final(10, 4, kept=3))
    assert ordering.live(state(500, 12, "b")) == []
    assert ordering.replay == Replay(10, 500)
    assert numbers(ordering.replayed([final(12, 5, kept=10)], 499, more=False)) == [12]
    assert numbers(ordering.live(final(501, 1, 12, "b"))) == [501]
    assert ordering.lost == 0


def test_any_message_tells_of_finals_lost_before_it() -> None:
    ordering = Ordering(("asr.",), None)
    ordering.live(final(10, 4, kept=3))
    assert ordering.live(state(11, 10)) == []
    assert ordering.replay is None
    ordering.live(state(20, 15))
    assert ordering.replay == Replay(10, 20)


def test_a_counter_that_began_anew() -> None:
    ordering = Ordering(("asr.",), 1_000)
    ordering.live(final(3, 2, 1, "b"))
    assert ordering.replay == Replay(0, 3)
    assert numbers(ordering.replayed([final(1, 1, 0, "b")], 2, more=False)) == [1, 3]
    assert ordering.settled == 3


def test_what_came_by_replay_is_not_taken_again() -> None:
    ordering = Ordering(("asr.",), None)
    ordering.live(final(10, 4, kept=3))
    assert ordering.live(final(10, 4, kept=3)) == []
    assert ordering.live(final(9, 3, kept=3)) == []


class FakeDaemon:
    """Stamps and keeps messages as the publisher does."""

    def __init__(self, random_numbers: random.Random) -> None:
        self.random = random_numbers
        self.seq = 0
        self.boot = 0
        self.counts: dict[str, int] = {}
        self.kept: list[AnyMessage] = []

    def restart(self) -> None:
        self.seq += self.random.choice([0, 1, 1_000])
        self.boot += 1
        self.counts = {}

    def publish(self) -> AnyMessage:
        source = self.random.choice(["mic", "desk"])
        message: AnyMessage = self.random.choice(
            [
                AsrFinal(source=source, utt=1, text="", start=0.0, end=0.0, reason="silence"),
                AsrPartial(source=source, utt=1, text="", start=0.0, end=0.0),
                Device(source=source, event="gap"),
                State(source="mic", status="listening"),
            ]
        )
        self.seq += 1
        self.counts[message.topic] = self.counts.get(message.topic, 0) + 1
        stamps = {
            "seq": self.seq,
            "n": self.counts[message.topic],
            "kept": self.kept[-1].seq if self.kept else 0,
            "boot": str(self.boot),
        }
        message = msgspec.structs.replace(message, **stamps)
        if message.JOURNALLED:
            self.kept.append(message)
        return message

    def page(self, replay: Replay, topics: tuple[str, ...]) -> tuple[list[AnyMessage], int, bool]:
        found = [
            message
            for message in self.kept
            if replay.since < message.seq < replay.until and matches(message.topic, topics)
        ]
        page = found[: self.random.randint(1, 3)]
        more = len(page) < len(found)
        return page, (page[-1].seq if more else replay.until - 1), more


@settings(max_examples=300, deadline=None)
@given(st.integers(), st.sampled_from([("",), ("asr.",), ("asr.final.mic",), ("device", "asr.partial")]))
def test_whatever_is_lost_every_final_comes_once_and_in_order(seed: int, topics: tuple[str, ...]) -> None:
    daemon = FakeDaemon(random.Random(seed))
    ordering = Ordering(topics, 0)
    got: list[AnyMessage] = []
    losing = False
    for _ in range(120):
        if daemon.random.random() < 0.05:
            daemon.restart()
        losing = daemon.random.random() < (0.8 if losing else 0.1)
        message = daemon.publish()
        if losing:
            continue
        got += ordering.live(message)
        while ordering.replay is not None:
            got += ordering.replayed(*daemon.page(ordering.replay, topics))
    got += ordering.live(last := daemon.publish())
    while ordering.replay is not None:
        got += ordering.replayed(*daemon.page(ordering.replay, topics))
    assert last.seq == daemon.seq
    kept = [message for message in daemon.kept if matches(message.topic, topics)]
    assert [message for message in got if message.JOURNALLED] == kept
    assert numbers(got) == sorted(set(numbers(got)))
    assert ordering.lost == 0
