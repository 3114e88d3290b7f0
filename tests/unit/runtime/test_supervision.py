"""A worker that dies is started again, one that hangs is killed, one that gives up is left alone."""

import asyncio
import os
import signal
import time

import pytest

from cosyd.runtime.ipc import Failed, Ready, RecognitionProgress, Stop
from cosyd.runtime.supervision import Patience, SupervisedWorker, WorkerState

QUICK = Patience(start_s=30, progress_s=0.5, decode_s=0.5, stop_s=5)


def obedient(connection, first_words=()):
    """Ready, then progress until told to stop; says how often it was started by its arguments."""
    connection.send(Ready())
    while not connection.poll(0.1):
        connection.send(RecognitionProgress({}, 0, 0, 0.0, 0, 0.0))
    assert isinstance(connection.recv(), Stop)


def silent_when_ready(connection):
    connection.send(Ready())
    time.sleep(60)


def busy_for_ever(connection):
    connection.send(Ready())
    for second in range(600):
        connection.send(RecognitionProgress({}, 1, 0, float(second), 0, 0.0))
        time.sleep(0.1)


def slow_by_nature(connection):
    """Its recogniser may take far longer than what is usual."""
    connection.send(Ready())
    while not connection.poll(0.05):
        connection.send(RecognitionProgress({}, 1, 0, 5.0, 0, 0.0, patience_s=60.0))


def gives_up(connection):
    connection.send(Failed("model damaged", 4))


class Watched:
    """A supervised worker that records what happens to it."""

    def __init__(self, target, patience=QUICK):
        self.states = []
        self.messages = []
        self.worker = SupervisedWorker(
            "test", target, lambda: (), self.messages.append, self.states.append, patience
        )

    async def until(self, condition, timeout_s=20):
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain; states: {self.states}"
            self.worker.check()
            await asyncio.sleep(0.02)


def run(scenario):
    asyncio.run(scenario)


def test_it_runs_and_stops():
    async def scenario():
        watched = Watched(obedient)
        watched.worker.start()
        await watched.until(lambda: watched.worker.state is WorkerState.RUNNING)
        pid = watched.worker.statistics().pid
        await watched.worker.stop()
        assert watched.states == [WorkerState.STARTING, WorkerState.RUNNING, WorkerState.STOPPED]
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    run(scenario())


def test_killed_it_comes_back():
    async def scenario():
        watched = Watched(obedient)
        watched.worker.start()
        await watched.until(lambda: watched.worker.state is WorkerState.RUNNING)
        first = watched.worker.statistics().pid
        os.kill(first, signal.SIGKILL)
        await watched.until(lambda: watched.states.count(WorkerState.RUNNING) == 2)
        statistics = watched.worker.statistics()
        assert statistics.pid != first
        assert statistics.restarts == 1
        assert statistics.last_error == "killed by signal 9"
        assert watched.worker.healthy
        await watched.worker.stop()

    run(scenario())


@pytest.mark.parametrize("target", [silent_when_ready, busy_for_ever])
def test_hung_it_is_killed_and_unhealthy_until_its_successor_is_ready(target):
    async def scenario():
        watched = Watched(target)
        watched.worker.start()
        await watched.until(lambda: watched.worker.state is WorkerState.RUNNING)
        assert watched.worker.healthy
        await watched.until(lambda: watched.worker.hung)
        assert not watched.worker.healthy
        await watched.until(lambda: watched.states.count(WorkerState.RUNNING) == 2)
        assert watched.worker.healthy
        assert watched.worker.statistics().last_error.startswith("hung: ")
        await watched.worker.stop()

    run(scenario())


def test_a_slow_recogniser_is_given_the_time_that_it_takes():
    async def scenario():
        watched = Watched(slow_by_nature)
        watched.worker.start()
        await watched.until(lambda: len(watched.messages) > 10)
        assert watched.worker.healthy
        assert not watched.worker.hung
        await watched.worker.stop()

    run(scenario())


def test_replaced_on_purpose_its_successor_is_there_at_once():
    async def scenario():
        watched = Watched(obedient)
        watched.worker.renew("not running yet: nothing to replace")
        watched.worker.start()
        for count in (1, 2, 3, 4, 5):  # more often than what counts as a crash loop
            await watched.until(lambda count=count: watched.states.count(WorkerState.RUNNING) == count)
            statistics = watched.worker.statistics()
            assert (statistics.restarts, statistics.crash_loop) == (count - 1, False)
            watched.worker.renew("the GPU answers again")
        await watched.until(lambda: watched.states.count(WorkerState.RUNNING) == 6)
        assert watched.worker.statistics().last_error == "replaced: the GPU answers again"
        assert watched.states[:4] == [
            WorkerState.STARTING,
            WorkerState.RUNNING,
            WorkerState.WAITING,
            WorkerState.STARTING,
        ]
        await watched.worker.stop()

    run(scenario())


def test_one_that_gives_up_is_not_started_again():
    async def scenario():
        watched = Watched(gives_up)
        watched.worker.start()
        await watched.until(lambda: watched.worker.state is WorkerState.FAILED)
        assert watched.worker.failure == Failed("model damaged", 4)
        assert watched.worker.statistics().restarts == 0
        await watched.worker.stop()

    run(scenario())


def test_a_hung_worker_does_not_hold_up_the_stop():
    async def scenario():
        watched = Watched(silent_when_ready, Patience(stop_s=0.3))
        watched.worker.start()
        await watched.until(lambda: watched.worker.state is WorkerState.RUNNING)
        await watched.worker.stop()
        assert watched.worker.state is WorkerState.STOPPED

    run(scenario())


def test_patience_notices_a_hang_before_the_watchdog_fires():
    for watchdog_s in (0.5, 1.0, 10.0, 60.0):
        assert Patience.for_watchdog(watchdog_s).progress_s <= max(0.5, watchdog_s / 2)
    assert Patience.for_watchdog(None) == Patience()
