"""A recogniser's process is replaced so that the GPU can be used again, and not too often."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from cosyd.runtime.ipc import Renew
from cosyd.runtime.recognition_supervisor import RecognitionSupervisor
from cosyd.runtime.renewals import LONGEST_PAUSE_S, SOUND_S, Renewals
from cosyd.runtime.supervision import WorkerState


def test_the_first_is_at_once_and_the_next_wait_longer_and_longer() -> None:
    renewals, now, waits = Renewals(), 1_000.0, []
    for _ in range(12):
        wait = renewals.due_in(now)
        waits.append(wait)
        now += wait
        renewals.done(now)
    assert waits[0] == 0
    assert waits == sorted(waits)
    assert waits[1] == 30
    assert waits[-1] <= LONGEST_PAUSE_S


def test_a_gpu_that_worked_for_long_begins_anew() -> None:
    renewals = Renewals()
    renewals.done(0.0)
    renewals.done(100.0)
    assert renewals.due_in(101.0) > 0
    assert renewals.due_in(100.0 + SOUND_S) == 0


class Worker:
    """A supervised worker of process ``pid``."""

    state = WorkerState.RUNNING

    def __init__(self) -> None:
        self.pid, self.reasons = 1, list[str]()

    def statistics(self) -> SimpleNamespace:
        return SimpleNamespace(pid=self.pid)

    def renew(self, reason: str) -> None:
        self.reasons.append(reason)


def supervisor(worker: Worker) -> RecognitionSupervisor:
    made = RecognitionSupervisor.__new__(RecognitionSupervisor)
    made.worker, made._renewals = worker, Renewals()  # type: ignore[assignment]
    return made


def test_the_recogniser_that_asks_is_replaced_and_no_other() -> None:
    async def scenario() -> None:
        worker = Worker()
        recognition = supervisor(worker)
        recognition._received(Renew("the GPU answers again"))
        await asyncio.sleep(0.02)
        assert worker.reasons == ["the GPU answers again"]
        recognition._received(Renew("so soon"))
        await asyncio.sleep(0.02)
        assert len(worker.reasons) == 1, "the next one waits"
        fresh = Worker()
        recognition = supervisor(fresh)
        recognition._received(Renew("from a process that has died since"))
        fresh.pid = 2
        await asyncio.sleep(0.02)
        assert fresh.reasons == []

    asyncio.run(scenario())
