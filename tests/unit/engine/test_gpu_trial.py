"""Asking in another process whether a GPU answers, and when."""

from __future__ import annotations

import multiprocessing
import os
import time
from itertools import pairwise
from multiprocessing.connection import Connection

import pytest

from cosyd.engine.cuda import CudaMemory
from cosyd.engine.trial import LONGEST_PAUSE_S, Revival, Trial
from cosyd.errors import GpuError


def says_yes(pipe: Connection, index: int) -> None:
    pipe.send("")


def dies(pipe: Connection, index: int) -> None:
    os._exit(7)


def hangs(pipe: Connection, index: int) -> None:
    time.sleep(60)


def answer(trial: Trial) -> str:
    while (said := trial.poll()) is None:
        time.sleep(0.01)
    trial.close()
    trial.close()
    assert multiprocessing.active_children() == []
    return said


def test_an_answer_comes_from_a_process_of_its_own() -> None:
    assert answer(Trial(target=says_yes).start()) == ""


def test_a_process_that_dies_or_hangs_is_an_answer_too() -> None:
    assert answer(Trial(target=dies).start()) == "the process that asked ended with code 7"
    assert answer(Trial(target=hangs, limit_s=0.2).start()) == "no answer within 0.2 s"


def test_without_a_gpu_the_reason_is_told() -> None:
    try:
        CudaMemory()
    except GpuError:
        assert answer(Trial().start()).startswith("no GPU")
    else:
        pytest.skip("there is a GPU")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Scripted:
    """An answer that is there at once."""

    def __init__(self, said: str | None) -> None:
        self.said, self.closed = said, False

    def poll(self) -> str | None:
        return self.said

    def close(self) -> None:
        self.closed = True


def test_it_asks_with_growing_pauses_until_the_gpu_answers_and_then_no_more() -> None:
    clock, asked = Clock(), list[float]()

    def ask() -> Scripted:
        asked.append(clock.now)
        return Scripted("" if clock.now > 40 else "silent")

    revival = Revival(ask, clock)
    answers = []
    assert not revival.poll()
    revival.failed()
    while clock.now < 100:
        clock.now += 0.5
        if revival.poll():
            answers.append(clock.now)
    pauses = [round(b - a) for a, b in pairwise(asked)]
    assert pauses[:3] == sorted(pauses[:3])
    assert max(pauses) <= LONGEST_PAUSE_S + 1
    assert len(answers) == 1
    assert 40 < answers[0] < 70


def test_what_is_still_being_asked_is_ended() -> None:
    clock, one = Clock(), Scripted(None)
    revival = Revival(lambda: one, clock)
    revival.failed()
    clock.now = 5.0
    assert not revival.poll()
    assert not revival.poll()
    revival.close()
    assert one.closed
