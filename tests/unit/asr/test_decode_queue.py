"""The decode queue: order, coalescing, limits, failures, and an end without a thread left."""

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from asr_fakes import FakeRecognizer

from cosyd.asr.decode import Decode, DecodeKind, DecodeResult
from cosyd.asr.decode_queue import RESULTS_LIMIT, DecodeQueue
from cosyd.asr.recognizer import SegmentRequest
from cosyd.errors import InferenceError
from cosyd.models.stop import Stopped, current_stop
from cosyd.types import Transcript

SOON = 10.0  # seconds: only so that a fault does not hang


def ask(
    number: int, kind: DecodeKind = "final", source: str = "mic", utt: int = 0, slack_s: float = 0.0
) -> Decode:
    audio = np.full(512, number / 4096, np.float32)
    return Decode(
        number, source, utt or number, kind, audio, number * 512, (number + 1) * 512, 0, 1, slack_s=slack_s
    )


class Gated(FakeRecognizer):
    """Waits before each decode until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.may = threading.Semaphore(0)

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        self.begun.release()
        assert self.may.acquire(timeout=SOON)
        return super().transcribe(requests)


class Failing(FakeRecognizer):
    """Fails the first ``times`` calls."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        self.times -= 1
        if self.times >= 0:
            self.calls += 1
            raise InferenceError("decoder failed on cpu with input_ids [1, 1]: out of memory")
        return super().transcribe(requests)


def collect(queue: DecodeQueue, count: int) -> list[DecodeResult]:
    results: list[DecodeResult] = []
    while len(results) < count:
        assert queue.wait(SOON), f"{len(results)} of {count} results"
        results += queue.results()
    return results


def order_of(submit: Callable[[DecodeQueue], None], count: int) -> list[int]:
    """Numbers of the requests in the order of their decoding; a first one holds the thread meanwhile."""
    recognizer = Gated()
    with DecodeQueue(recognizer, partial_share=1.0) as queue:
        queue.submit(ask(1, utt=1000))
        assert recognizer.begun.acquire(timeout=SOON)
        submit(queue)
        recognizer.may.release(100)
        return [result.decode.id for result in collect(queue, count + 1)][1:]


def test_a_result_is_of_its_request() -> None:
    with DecodeQueue(FakeRecognizer()) as queue:
        decode = ask(7)
        assert queue.submit(decode)
        (result,) = collect(queue, 1)
    assert result.decode is decode
    assert result.transcript is not None
    assert result.transcript.text == "w7"
    assert (result.error, result.decode_s >= 0) == (None, True)


def test_prompt_and_draft_reach_the_recogniser() -> None:
    recognizer = FakeRecognizer()
    audio = np.zeros(512, np.float32)
    with DecodeQueue(recognizer) as queue:
        queue.submit(Decode(1, "mic", 1, "final", audio, 0, 512, 0, 1, prompt="a b", draft=(4, 5)))
        collect(queue, 1)
    assert (recognizer.requests[0].prompt, recognizer.requests[0].draft) == ("a b", (4, 5))


def test_finals_before_speculations_before_partials() -> None:
    def submit(queue: DecodeQueue) -> None:
        queue.submit(ask(2, "partial", "a"))
        queue.submit(ask(3, "speculative", "b", slack_s=60))
        queue.submit(ask(4, "final", "c"))
        queue.submit(ask(5, "final", "d"))

    assert order_of(submit, 4) == [4, 5, 3, 2]


def test_a_speculation_that_is_due_comes_before_a_later_final() -> None:
    now = [0.0]
    recognizer = Gated()
    with DecodeQueue(recognizer, clock=lambda: now[0]) as queue:
        queue.submit(ask(1))
        assert recognizer.begun.acquire(timeout=SOON)
        queue.submit(ask(2, "speculative", "a", slack_s=0.5))
        now[0] = 1.0
        queue.submit(ask(3, "final", "b"))
        recognizer.may.release(3)
        assert [result.decode.id for result in collect(queue, 3)] == [1, 2, 3]


def test_of_partials_the_newest_of_each_source_is_kept() -> None:
    def submit(queue: DecodeQueue) -> None:
        for number in (2, 3, 4):
            queue.submit(ask(number, "partial", "a"))
        queue.submit(ask(5, "partial", "b"))
        assert queue.statistics().coalesced == 2

    assert sorted(order_of(submit, 2)) == [4, 5]


def test_a_final_replaces_what_waits_of_its_utterance_only() -> None:
    def submit(queue: DecodeQueue) -> None:
        queue.submit(ask(2, "speculative", utt=7, slack_s=60))
        queue.submit(ask(3, "partial", utt=7))
        queue.submit(ask(4, "speculative", "other", utt=7, slack_s=60))
        queue.submit(ask(5, "final", utt=7))

    assert order_of(submit, 2) == [5, 4]


def test_partials_of_a_source_get_their_share_of_the_time_and_no_more() -> None:
    now = [0.0]

    class Slow(FakeRecognizer):
        def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
            now[0] += 0.1
            return super().transcribe(requests)

    with DecodeQueue(Slow(), partial_share=0.25, clock=lambda: now[0]) as queue:
        queue.submit(ask(1, "partial"))
        collect(queue, 1)
        queue.submit(ask(2, "partial"))
        queue.submit(ask(3, "partial", "other"))
        assert [result.decode.id for result in collect(queue, 1)] == [3]
        assert not queue.wait(0.05)
        queue.submit(ask(4, "final"))  # finals do not wait
        assert [result.decode.id for result in collect(queue, 1)] == [4]
        queue.submit(ask(5, "partial"))  # in place of 2
        now[0] = 0.41
        assert [result.decode.id for result in collect(queue, 1)] == [5]


def test_the_last_partial_before_a_rest_is_decoded_after_it() -> None:
    with DecodeQueue(FakeRecognizer(), partial_share=0.001) as queue:
        queue.submit(ask(1, "partial"))
        collect(queue, 1)
        queue.submit(ask(2, "partial"))
        assert collect(queue, 1)[0].decode.id == 2


def test_one_final_too_many_waits_until_there_is_room() -> None:
    recognizer = Gated()
    with DecodeQueue(recognizer, finals_limit=2) as queue:
        queue.submit(ask(1))
        assert recognizer.begun.acquire(timeout=SOON)
        assert queue.submit(ask(2))
        assert queue.submit(ask(3))
        assert not queue.submit(ask(4), timeout_s=0.02)
        assert queue.submit(ask(5, "partial"))
        recognizer.may.release(100)
        assert queue.submit(ask(4), timeout_s=SOON)
        assert sorted(result.decode.id for result in collect(queue, 5)) == [1, 2, 3, 4, 5]


def test_results_that_nobody_fetches_stop_the_decoding() -> None:
    recognizer = FakeRecognizer()
    with DecodeQueue(recognizer, finals_limit=RESULTS_LIMIT + 10) as queue:
        for number in range(1, RESULTS_LIMIT + 6):
            queue.submit(ask(number))
        assert len(collect(queue, RESULTS_LIMIT + 5)) == RESULTS_LIMIT + 5


@pytest.mark.parametrize(("kind", "attempts"), [("final", 2), ("speculative", 2), ("partial", 1)])
def test_a_failure_is_a_result(kind: DecodeKind, attempts: int) -> None:
    recognizer = Failing(2)
    with DecodeQueue(recognizer, partial_share=1.0) as queue:
        queue.submit(ask(1, kind))
        (result,) = collect(queue, 1)
        assert result.transcript is None
        assert result.error is not None
        assert "out of memory" in result.error
        assert recognizer.calls == attempts
        assert queue.statistics().failed == 1
        queue.submit(ask(2))
        assert collect(queue, 1)[0].error is None or attempts == 1


def test_a_final_is_tried_twice() -> None:
    with DecodeQueue(Failing(1)) as queue:
        queue.submit(ask(1))
        assert collect(queue, 1)[0].transcript is not None


def test_the_owner_is_told_of_each_result() -> None:
    told = threading.Semaphore(0)
    with DecodeQueue(FakeRecognizer(), on_result=told.release) as queue:
        for number in (1, 2, 3):
            queue.submit(ask(number))
            assert told.acquire(timeout=SOON)


def test_busy_since_is_when_the_decode_under_way_began() -> None:
    recognizer = Gated()
    with DecodeQueue(recognizer) as queue:
        assert queue.statistics().busy_since is None
        queue.submit(ask(1))
        assert recognizer.begun.acquire(timeout=SOON)
        assert queue.statistics().busy_since is not None
        recognizer.may.release()
        collect(queue, 1)
        statistics = queue.statistics()
    assert (statistics.busy_since, statistics.decoded) == (None, 1)
    assert statistics.audio_s == pytest.approx(0.032)


def test_closing_ends_the_thread_and_whoever_waits() -> None:
    recognizer = Gated()
    queue = DecodeQueue(recognizer, finals_limit=1)
    queue.start()
    queue.submit(ask(1))
    assert recognizer.begun.acquire(timeout=SOON)
    queue.submit(ask(2))
    taken: list[bool] = []
    waiter = threading.Thread(target=lambda: taken.append(queue.submit(ask(3))))
    waiter.start()
    recognizer.may.release()
    closer = threading.Thread(target=queue.close)
    closer.start()
    recognizer.may.release(10)
    for thread in (waiter, closer):
        thread.join(SOON)
        assert not thread.is_alive()
    assert not any(thread.name == "decode" for thread in threading.enumerate())
    assert not queue.submit(ask(4))
    assert not queue.submit(ask(5, "partial"))
    queue.close()


def test_a_queue_that_was_never_started_closes() -> None:
    queue = DecodeQueue(FakeRecognizer())
    queue.close()
    assert not queue.submit(ask(1)) and not queue.wait(0)


def test_starting_twice_is_an_error() -> None:
    with DecodeQueue(FakeRecognizer()) as queue, pytest.raises(RuntimeError):
        queue.start()


def test_a_source_that_is_gone_leaves_no_partial() -> None:
    with DecodeQueue(FakeRecognizer(), partial_share=0.001, clock=lambda: 0.0) as queue:
        queue.submit(ask(1, "partial"))
        collect(queue, 1)
        queue.forget_source("mic")
        assert queue.statistics().waiting_partials == 0


def test_after_a_speculation_partials_do_not_rest() -> None:
    now = [0.0]

    class Slow(FakeRecognizer):
        def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
            now[0] += 0.1
            return super().transcribe(requests)

    with DecodeQueue(Slow(), partial_share=0.25, clock=lambda: now[0]) as queue:
        queue.submit(ask(1, "speculative"))
        collect(queue, 1)
        queue.submit(ask(2, "partial"))
        assert [result.decode.id for result in collect(queue, 1)] == [2]


class Endless(FakeRecognizer):
    """Never done with what can be stopped, the first time that it is asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)

    def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
        stop = current_stop()
        if stop is None:
            return super().transcribe(requests)
        ended = threading.Event()
        with stop.ended_by(ended.set):
            self.begun.release()
            assert ended.wait(SOON)
        raise Stopped


@pytest.mark.parametrize("kind", ["final", "speculative"])
def test_a_partial_under_way_is_stopped_for_the_final_of_its_utterance(kind: DecodeKind) -> None:
    recognizer = Endless()
    with DecodeQueue(recognizer, partial_share=1.0) as queue:
        queue.submit(ask(1, "partial", utt=7))
        assert recognizer.begun.acquire(timeout=SOON)
        queue.submit(ask(2, kind, utt=7))
        assert [result.decode.id for result in collect(queue, 1)] == [2]
        statistics = queue.statistics()
    assert (statistics.waiting_partials, statistics.coalesced, statistics.decoded) == (0, 1, 1)


def test_another_source_s_partial_is_decoded_after_the_final_to_its_end() -> None:
    recognizer = Endless()
    with DecodeQueue(recognizer, partial_share=1.0) as queue:
        queue.submit(ask(1, "partial", "other"))
        assert recognizer.begun.acquire(timeout=SOON)
        queue.submit(ask(2))
        assert [result.decode.id for result in collect(queue, 2)] == [2, 1]
        assert queue.statistics().coalesced == 0


def test_of_a_stopped_partial_and_a_newer_one_the_newer_is_kept() -> None:
    recognizer = Endless()
    with DecodeQueue(recognizer, partial_share=1.0) as queue:
        queue.submit(ask(1, "partial", "other"))
        assert recognizer.begun.acquire(timeout=SOON)
        queue.submit(ask(2, "partial", "other"))
        queue.submit(ask(3))
        assert collect(queue, 1)[0].decode.id == 3
        assert recognizer.begun.acquire(timeout=SOON)  # 2, which may be stopped as 1 was
        queue.submit(ask(4))
        assert [result.decode.id for result in collect(queue, 2)] == [4, 2]


def test_closing_does_not_wait_for_a_partial() -> None:
    recognizer = Endless()
    with DecodeQueue(recognizer) as queue:
        queue.submit(ask(1, "partial"))
        assert recognizer.begun.acquire(timeout=SOON)
    assert queue.results() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ends_by_itself_is_told_and_not_waited_for() -> None:
    class Broken(FakeRecognizer):
        def transcribe(self, requests: Sequence[SegmentRequest]) -> list[Transcript]:
            raise ZeroDivisionError

    with DecodeQueue(Broken(), finals_limit=1) as queue:
        queue.submit(ask(1))
        with pytest.raises(InferenceError, match="ended by itself"):
            queue.wait(SOON)
        with pytest.raises(InferenceError, match="ended by itself"):
            queue.results()
        with pytest.raises(InferenceError, match="ended by itself"):
            for number in range(2, 5):
                queue.submit(ask(number))
