"""Other libraries under the same requests: Moonshine's own, and sherpa-onnx on the same streaming model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.bench.ask_moonshine import ask_moonshine
from cosyd.bench.load_requests import PIECE, Answers
from cosyd.bench.speech import Audio
from cosyd.spec import FRAME

TIMEOUT_S = 600.0
# Runs in the peer's interpreter: clips of one length as float32 on stdin; that length in samples, clients and
# requests as arguments -> waits, time and processor time as JSON. Its library takes one request at a time.
_MOONSHINE = """
import json, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from moonshine_voice import ModelArch, Transcriber, get_model_path
length, clients, total = map(int, sys.argv[1:])
clips = [c.tolist() for c in np.frombuffer(sys.stdin.buffer.read(), "<f4").reshape(-1, length)]
peer = Transcriber(str(get_model_path("tiny-en")), ModelArch.TINY)
peer.transcribe_without_streaming(clips[0])
lock, left, waits = threading.Lock(), list(range(total)), []
def client():
    while True:
        try:
            number = left.pop()
        except IndexError:
            return
        sent = time.monotonic()
        with lock:
            peer.transcribe_without_streaming(clips[number % len(clips)])
        waits.append(time.monotonic() - sent)
begun, cpu = time.monotonic(), time.process_time()
with ThreadPoolExecutor(clients) as pool:
    for done in [pool.submit(client) for _ in range(clients)]:
        done.result()
print(json.dumps([waits, time.monotonic() - begun, time.process_time() - cpu]))
"""


def moonshine(clips: Sequence[Audio], clients: int, total: int) -> Answers | str:
    """Moonshine's own library, or why it was not run. ``clips`` are of one length."""
    audio = np.stack(clips)
    answers = ask_moonshine(_MOONSHINE, (clips[0].size, clients, total), audio, TIMEOUT_S)
    return answers if isinstance(answers, str) else Answers(*answers)


class Sherpa:
    """sherpa-onnx on the folder of a zipformer2 CTC model, all clients in one batch, as its server does."""

    def __init__(self, folder: Path) -> None:
        """Raises ImportError where it is not installed."""
        import sherpa_onnx

        (model,) = folder.glob("*.onnx")
        self._peer: Any = sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(
            model=str(model), tokens=str(folder / "tokens.txt"), num_threads=1
        )

    def run(self, clips: Sequence[Audio], clients: int, total: int) -> Answers:
        answers = Answers()
        cpu, begun = time.process_time(), time.monotonic()
        unsent = total
        open_ones: list[tuple[Any, float]] = []
        while len(answers.waits_s) < total:
            while unsent and len(open_ones) < clients:
                open_ones.append((self._send(clips[unsent % len(clips)]), time.monotonic()))
                unsent -= 1
            self._peer.decode_streams([stream for stream, _ in open_ones])
            now = time.monotonic()
            for stream, sent in open_ones:
                if not self._peer.is_ready(stream):
                    self._peer.get_result(stream)
                    answers.waits_s.append(now - sent)
            open_ones = [(stream, sent) for stream, sent in open_ones if self._peer.is_ready(stream)]
        answers.took_s, answers.cpu_s = time.monotonic() - begun, time.process_time() - cpu
        return answers

    def _send(self, clip: Audio) -> Any:
        stream = self._peer.create_stream()
        for start in range(0, clip.size, PIECE):
            stream.accept_waveform(FRAME.rate_hz, clip[start : start + PIECE])
        stream.accept_waveform(FRAME.rate_hz, np.zeros(FRAME.rate_hz // 2, np.float32))  # the last words
        stream.input_finished()
        return stream
