"""When a source is over, and whose ring its worker finds: the fleet with workers that are only told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosyd.config.paths import Paths
from cosyd.config.schema import Config, PathsConfig, SourceConfig
from cosyd.publish.messages import Device, State
from cosyd.runtime import capture_supervisor, recognition_supervisor
from cosyd.runtime.board import Board
from cosyd.runtime.fleet import Fleet
from cosyd.runtime.fleet_context import FleetContext
from cosyd.runtime.ipc import Drained
from cosyd.runtime.metrics import Metrics
from cosyd.runtime.supervision import Patience, WorkerState, WorkerStatistics
from cosyd.types import DeviceOpened, SourceEnded

OPENED = DeviceOpened(0, "talk.wav", 16_000, 1, "s16")
FRESH = 4  # place among the arguments of capture_worker.main, after the connection


class IdleWorker:
    """What the fleet sees of a worker; the test says what the process would."""

    def __init__(self, name, target, arguments, on_message, on_state, patience):
        self.name = name
        self.state = WorkerState.RUNNING
        self.arguments = arguments
        self.says = on_message
        self.enters = on_state
        self.failure = None

    def start(self):
        pass

    def send(self, message):
        pass

    def statistics(self):
        return WorkerStatistics(self.name, self.state.value, None, 0, False, "killed by signal 9")


@pytest.fixture
def published():
    return []


@pytest.fixture
def board(published):
    return Board(published.append, lambda name: None, "model")


@pytest.fixture
def fleet(monkeypatch, board):
    for module in (capture_supervisor, recognition_supervisor):
        monkeypatch.setattr(module, "SupervisedWorker", IdleWorker)
    config = Config(sources=(SourceConfig(name="talk", type="file", path="talk.wav"),))
    paths = Paths.resolve(PathsConfig())
    fleet = Fleet(FleetContext(config, paths, board, Metrics(), Patience(), pytest.fail))
    fleet.start()
    return fleet


@pytest.fixture
def capture(fleet):
    (worker,) = (worker for worker in fleet.workers() if worker is not fleet.recognition.worker)
    return worker


def over(board):
    return board.records["talk"].drained


def told(published):
    """The events and states of the source, in order."""
    return [
        m.event if isinstance(m, Device) else m.status for m in published if isinstance(m, Device | State)
    ]


@pytest.mark.parametrize("first", ["capture", "recognition"])
def test_it_is_over_when_both_have_said_so(fleet, board, capture, published, first):
    """They speak through different pipes: whichever the daemon reads first."""
    steps = [
        lambda: capture.says(SourceEnded(16_000)),
        lambda: fleet.recognition.worker.says(Drained("talk")),
    ]
    if first == "recognition":
        steps.reverse()
    capture.says(OPENED)
    steps[0]()
    assert not over(board) and told(published) == ["opening", "opened", "listening"]
    steps[1]()
    assert over(board) and told(published)[3:] == ["ended", "ended"]


def test_a_source_that_gave_nothing_is_over_at_once(board, capture, published):
    capture.says(SourceEnded(0))
    assert over(board) and told(published) == ["opening", "ended", "ended"]


def test_a_worker_killed_after_the_end_changes_nothing(fleet, board, capture, published):
    capture.says(OPENED)
    capture.says(SourceEnded(16_000))
    fleet.recognition.worker.says(Drained("talk"))
    del published[:]
    capture.enters(WorkerState.WAITING)
    capture.says(SourceEnded(16_000))
    assert told(published) == ["restarting", "ended"]
    assert over(board)


def test_a_ring_is_its_own_only_when_somebody_has_read_it(fleet, capture):
    """Before that, whatever lies at the path is left from another daemon."""
    assert isinstance(capture.arguments()[1], Path)
    assert capture.arguments()[FRESH] is True
    capture.enters(WorkerState.WAITING)
    assert capture.arguments()[FRESH] is True
    capture.says(OPENED)
    assert capture.arguments()[FRESH] is False
