"""What a program that runs a daemon of its own makes of the state of its source."""

from __future__ import annotations

import signal

import psutil
import pytest

from cosyd.errors import AudioError, CosydError
from cosyd.publish.messages import State
from cosyd.runtime import embedded
from cosyd.runtime.embedded import EmbeddedDaemon, check_source


def state(status: str, rate_hz: int = 0) -> State:
    return State(source="mic", status=status, reason="gone", rate_hz=rate_hz)


def never() -> None:
    raise AssertionError("the daemon has not ended")


@pytest.mark.parametrize("status", ["opening", "listening", "muted", "restarting", "ended", "stopped"])
def test_most_states_are_no_trouble(status: str) -> None:
    check_source(state(status), never)


def test_a_device_that_cannot_be_opened_at_all_is_an_error() -> None:
    with pytest.raises(AudioError, match=r"^gone$"):
        check_source(state("lost"), never)


def test_a_device_that_was_open_before_may_come_back() -> None:
    check_source(state("lost", rate_hz=48_000), never)


def test_after_a_failure_the_daemons_own_error_counts() -> None:
    """Its exit code is 4 for a model, 3 for a device."""
    asked = []

    def check() -> None:
        asked.append(1)
        if len(asked) == 3:  # it takes a moment to end
            raise error

    error = CosydError("the models are gone")
    error.exit_code = 4  # type: ignore[misc]
    with pytest.raises(CosydError) as raised:
        check_source(state("failed"), check)
    assert raised.value is error


def test_after_a_failure_of_a_daemon_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "FAILED_S", 0.0)
    with pytest.raises(AudioError, match=r"^gone$"):
        check_source(state("failed"), never)


def test_a_daemon_that_was_killed_ends_the_program_with_1() -> None:
    with EmbeddedDaemon({}) as daemon:
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        with pytest.raises(CosydError, match="without a word") as raised:
            daemon.check()
        assert daemon.ended
    assert raised.value.exit_code == 1


def test_nothing_stays_open_or_lies_about() -> None:
    before = psutil.Process().num_fds()
    with EmbeddedDaemon({}) as daemon:
        pass
    assert daemon.ended
    assert psutil.Process().num_fds() == before
    assert not daemon.folder.exists()
