"""The decode queue on a clock of processor time, with a recogniser whose decodes cost what the test says."""

import numpy as np
import pytest

from cosyd.asr.decode import Decode, DecodeKind
from cosyd.asr.recognizer import SegmentRequest
from cosyd.bench.virtual import VirtualQueue
from cosyd.errors import InferenceError
from cosyd.types import Backend, Transcript


class Worker:
    """Takes ``cost`` seconds of a clock that goes on only while it works."""

    family = "segment"
    name = "worker"
    backend = Backend("fake", "a test")
    limit_s = 30.0

    def __init__(self, cost: float) -> None:
        self.cost, self.clock = cost, 100.0

    def warm_up(self) -> None: ...

    def close(self) -> None: ...

    def unusable(self, hotwords):  # type: ignore[no-untyped-def]
        return ()

    def transcribe(self, requests: list[SegmentRequest]) -> list[Transcript]:
        self.clock += self.cost
        if self.cost < 0:
            raise InferenceError("broken")
        return [Transcript("x", (), 0.9) for _ in requests]


def ask(number: int, kind: DecodeKind = "partial", source: str = "a") -> Decode:
    return Decode(number, source, number, kind, np.zeros(512, np.float32), 0, 512, 0, 1)


def queue(cost: float, share: float = 1.0) -> VirtualQueue:
    worker = Worker(cost)
    return VirtualQueue(worker, partial_share=share, cost=lambda: worker.clock)  # type: ignore[arg-type]


def came(queue: VirtualQueue, until: float) -> list[tuple[float, int]]:
    return [(pytest.approx(result.when), result.decode.id) for result in queue.until(until)]


def test_a_result_comes_as_much_later_as_the_work_took() -> None:
    busy = queue(0.25)
    busy.submit(ask(1), 1.0)
    assert came(busy, 1.2) == []
    assert came(busy, 1.3) == [(1.25, 1)]
    assert busy.busy_s == pytest.approx(0.25)


def test_one_decode_at_a_time_and_finals_first() -> None:
    busy = queue(0.25)
    busy.submit(ask(1), 1.0)
    assert came(busy, 1.1) == []
    busy.submit(ask(2, source="b"), 1.1)
    busy.submit(ask(3, "final", "c"), 1.2)
    assert came(busy, 9.0) == [(1.45, 3), (1.7, 1), (1.95, 2)]


def test_a_partial_makes_way_for_a_final_once() -> None:
    busy = queue(0.25, share=0.99)
    busy.submit(ask(1), 1.0)
    assert came(busy, 1.1) == []
    busy.submit(ask(2, "final", "b"), 1.1)
    assert came(busy, 1.5) == [(1.35, 2)]
    busy.submit(ask(3, "final", "b"), 1.55)
    assert came(busy, 9.0) == [(1.6, 1), (1.85, 3)]
    assert busy.busy_s == pytest.approx(0.1 + 0.25 * 3)


def test_partials_rest() -> None:
    busy = queue(0.1, share=0.25)
    busy.submit(ask(1), 0.0)
    assert came(busy, 0.2) == [(0.1, 1)]
    busy.submit(ask(2), 0.2)
    assert came(busy, 0.45) == []  # from 0.4 on, so until 0.5
    assert came(busy, 0.6) == [(0.5, 2)]


def test_an_idle_queue_begins_when_it_is_asked() -> None:
    busy = queue(0.1)
    assert came(busy, 5.0) == []
    busy.submit(ask(1), 5.0)
    assert came(busy, 6.0) == [(5.1, 1)]


def test_a_failure_is_a_result_without_text() -> None:
    busy = queue(-0.0001)
    busy.submit(ask(1), 1.0)
    (result,) = busy.until(2.0)
    assert result.transcript is None
