"""The load test's clients and live streams, against the daemon's queue with a recogniser of constants."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.asr.decode_queue import DecodeQueue
from cosyd.asr.listener import Listener
from cosyd.asr.recognition import Recognition
from cosyd.asr.recognizer import SegmentRequest
from cosyd.bench.load_live import LiveLoad, Recording
from cosyd.bench.load_requests import PIECE, Requests, _pieces
from cosyd.errors import CosydError, InferenceError
from cosyd.spec import FRAME
from cosyd.types import Backend, Transcript


class Loud:
    """Says as many words as there are tenths of a second of sound."""

    family = "segment"
    name = "loud"
    backend = Backend("fake", "a test")
    limit_s = 30.0

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.calls = 0

    def warm_up(self) -> None: ...

    def close(self) -> None: ...

    def unusable(self, hotwords):  # type: ignore[no-untyped-def]
        return ()

    def transcribe(self, requests: list[SegmentRequest]) -> list[Transcript]:
        self.calls += len(requests)
        if self.broken:
            raise InferenceError("broken")
        counts = [int(np.count_nonzero(request.audio) / FRAME.rate_hz * 10) for request in requests]
        return [Transcript(" ".join(f"w{i}" for i in range(count)), (), 0.9) for count in counts]


CLIPS = [np.full(FRAME.rate_hz, 0.1, np.float32)] * 3


@pytest.mark.parametrize(("clients", "total"), [(1, 3), (4, 10), (64, 64), (8, 5)])
def test_every_request_is_answered_once(clients: int, total: int) -> None:
    recognizer = Loud()
    with DecodeQueue(recognizer) as queue:
        answers = Requests(queue, CLIPS, clients, total).run()
    assert (len(answers.waits_s), recognizer.calls) == (total, total)
    assert all(0 <= wait <= answers.took_s for wait in answers.waits_s)
    assert answers.per_second == pytest.approx(total / answers.took_s)


def test_a_failure_ends_the_test() -> None:
    with DecodeQueue(Loud(broken=True)) as queue, pytest.raises(CosydError, match="broken"):
        Requests(queue, CLIPS, 2, 4).run()


def test_a_streaming_model_gets_the_clip_in_pieces_of_which_the_last_ends_it() -> None:
    clip = np.arange(PIECE * 2 + 100, dtype=np.float32)
    pieces = _pieces(clip, "a", 3)
    assert np.array_equal(np.concatenate([piece.audio for piece in pieces]), clip)
    assert [piece.kind for piece in pieces] == ["partial", "partial", "final"]
    assert [getattr(piece, "ends", None) for piece in pieces] == ["", "", "utterance"]
    assert len({piece.id for piece in pieces + _pieces(clip, "a", 4)}) == 6


def test_live_streams_go_through_listeners_at_their_pace() -> None:
    speech = np.repeat([0.0, 0.1, 0.0], [10 * FRAME.block, 30 * FRAME.block, 35 * FRAME.block])
    recording = Recording(
        speech.astype(np.float32), np.repeat([0.0, 0.9, 0.0], [10, 30, 35]).astype(np.float32)
    )
    with DecodeQueue(Loud()) as queue:
        recognition = Recognition(queue, Listener, 30.0, Loud.backend)
        times = LiveLoad(recognition, [recording], 3, spread_s=0.1).run()
        statistics = queue.statistics()
        assert (statistics.waiting_finals, statistics.waiting_partials, statistics.busy_since) == (0, 0, None)
        assert queue.results() == []
    assert (len(times.final), times.lost, len(times.first)) == (3, 0, 3)
    assert len(times.lag) >= 3
    # Nothing comes before it was said.
    assert min(times.lag) >= 0
    assert min(times.final) >= 0
