"""A request to end work: heard before, during and after it, from any thread."""

import threading

import pytest

from cosyd.models.stop import Stop, Stopped, current_stop


def test_what_runs_is_ended_once() -> None:
    stop, calls = Stop(), []
    with stop.ended_by(lambda: calls.append("ended")):
        assert not stop.is_set
        setter = threading.Thread(target=stop.set)
        setter.start()
        setter.join()
    assert (stop.is_set, calls) == (True, ["ended"])


def test_nothing_begins_afterwards() -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped), stop.ended_by(pytest.fail):
        pytest.fail("it began")


def test_what_is_over_is_left_alone() -> None:
    stop = Stop()
    with stop.ended_by(lambda: pytest.fail("it was over")):
        pass
    stop.set()


def test_it_is_heeded_by_one_thread_and_there_in_the_block_alone() -> None:
    stop, elsewhere = Stop(), []
    with stop.heeded():
        assert current_stop() is stop
        other = threading.Thread(target=lambda: elsewhere.append(current_stop()))
        other.start()
        other.join()
    assert (current_stop(), elsewhere) == (None, [None])
