"""Requests for the load test: clients that each send a clip, wait for its text and send the next."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cosyd.asr.decode import Decode
from cosyd.asr.decode_queue import DecodeQueue
from cosyd.asr.recognition import RecognitionQueue
from cosyd.asr.streaming.chunk import Chunk
from cosyd.bench.speech import Audio
from cosyd.errors import CosydError
from cosyd.spec import FRAME

PIECE = FRAME.rate_hz // 2  # samples of one chunk: a client that has the whole clip does not send blocks
STUCK_S = 120.0  # without any result


@dataclass
class Answers:
    """``waits_s``: for each request from its sending to its text; ``took_s`` and ``cpu_s`` for all."""

    waits_s: list[float] = field(default_factory=list)
    took_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def per_second(self) -> float:
        return len(self.waits_s) / self.took_s


@dataclass
class _Client:
    source: str
    sent: float = 0.0
    number: int = 0
    left: deque[Decode] = field(default_factory=deque)  # of its request, what the queue has not taken yet


class Requests:
    """``clients`` at a time, ``total`` requests; ``queue`` is the daemon's own, of either family."""

    def __init__(self, queue: RecognitionQueue, clips: Sequence[Audio], clients: int, total: int) -> None:
        self._queue = queue
        self._clips = clips
        self._cut: Callable[[Audio, str, int], list[Decode]] = (
            _whole if isinstance(queue, DecodeQueue) else _pieces
        )
        self._clients = {f"client{i}": _Client(f"client{i}") for i in range(clients)}
        self._unsent = total
        self._total = total
        self._answers = Answers()

    def run(self) -> Answers:
        """Raises CosydError when nothing comes any more."""
        cpu, begun = time.process_time(), time.monotonic()
        for client in self._clients.values():
            self._request(client)
        while len(self._answers.waits_s) < self._total:
            self._hand_over()
            if not self._queue.wait(0.01 if self._waiting() else STUCK_S):
                if self._waiting():
                    continue
                raise CosydError(f"no text for {STUCK_S:.0f} s under load")
            self._take()
        self._answers.took_s = time.monotonic() - begun
        self._answers.cpu_s = time.process_time() - cpu
        for source in self._clients:
            self._queue.forget_source(source)
        return self._answers

    def _waiting(self) -> bool:
        return any(client.left for client in self._clients.values())

    def _request(self, client: _Client) -> None:
        if self._unsent:
            clip = self._clips[self._unsent % len(self._clips)]
            self._unsent -= 1
            client.number += 1
            client.sent = time.monotonic()
            client.left.extend(self._cut(clip, client.source, client.number))

    def _hand_over(self) -> None:
        """As much as the queue takes without waiting, the longest waiting client first."""
        for client in sorted(self._clients.values(), key=lambda client: client.sent):
            while client.left and self._queue.has_room(client.source):
                self._queue.submit(client.left.popleft())

    def _take(self) -> None:
        now = time.monotonic()
        for result in self._queue.results():
            if result.decode.kind != "final":
                continue
            if result.error is not None:
                raise CosydError(f"a request failed under load: {result.error}")
            client = self._clients[result.decode.source]
            self._answers.waits_s.append(now - client.sent)
            self._request(client)


def _whole(clip: Audio, source: str, number: int) -> list[Decode]:
    return [Decode(number, source, number, "final", clip, 0, clip.size, 0, clip.size // FRAME.block)]


def _pieces(clip: Audio, source: str, number: int) -> list[Decode]:
    starts = range(0, clip.size, PIECE)
    return [
        Chunk(
            id=number * len(starts) + i,
            source=source,
            utt=number,
            kind="final" if start + PIECE >= clip.size else "partial",
            audio=clip[start : start + PIECE],
            start_sample=start,
            end_sample=min(start + PIECE, clip.size),
            anchor=0,
            blocks=min(start + PIECE, clip.size) // FRAME.block,
            ends="utterance" if start + PIECE >= clip.size else "",
        )
        for i, start in enumerate(starts)
    ]
