"""What a worker hears of the daemon while it is busy with something else."""

from __future__ import annotations

import multiprocessing

import pytest

from cosyd.runtime import worker
from cosyd.runtime.ipc import Open, SetLogLevel, Stop
from cosyd.runtime.worker import INBOX_LIMIT, Inbox

PATIENCE_S = 20.0


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch):
    """The daemon's end of the pipe, and the inbox, in this process, whose signals stay as they are."""
    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    ours, theirs = multiprocessing.Pipe()
    inbox = Inbox(theirs)
    inbox.start()
    yield ours, inbox
    ours.close()
    inbox._thread.join(PATIENCE_S)
    theirs.close()


def test_the_log_level_changes_at_once_and_takes_no_place(inbox, monkeypatch: pytest.MonkeyPatch):
    levels: list[str] = []
    monkeypatch.setattr(worker, "set_up_logs", levels.append)
    daemon, ours = inbox
    for _ in range(2 * INBOX_LIMIT):  # nobody takes commands while a device is open
        daemon.send(SetLogLevel("debug"))
    daemon.send(Stop())
    assert ours.stopping.wait(PATIENCE_S)
    assert levels == ["debug"] * 2 * INBOX_LIMIT
    assert ours.take() == [Stop()]


def test_other_commands_wait_to_be_taken(inbox):
    daemon, ours = inbox
    daemon.send(Open())
    assert ours.next(PATIENCE_S) == Open()


def test_a_daemon_that_goes_is_a_stop(inbox):
    daemon, ours = inbox
    daemon.close()
    assert ours.stopping.wait(PATIENCE_S)
