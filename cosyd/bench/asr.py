"""``cosyd bench asr``: what recognising costs, and how long a listener waits for its text.

Moonshine's own library runs beside ours, on the same recording, when an interpreter that has it is named by
``MOONSHINE_VOICE_PYTHON`` (``pip install moonshine-voice`` into an environment of its own).
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decode import Decode
from cosyd.asr.decode_queue import DecodeQueue
from cosyd.asr.listener import Listener
from cosyd.asr.listening import Action
from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.recognizers import load_recognizer
from cosyd.bench.ask_moonshine import ask_moonshine
from cosyd.bench.report import Report, percentiles
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.frontend.silero import SileroVad
from cosyd.models.configured import configured_store
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME
from cosyd.types import Final, Partial, RecognitionEvent, SpeechEnded, SpeechStarted

Audio = NDArray[np.float32]

LENGTHS_S = (1, 2, 5, 10, 20)
PEER_TIMEOUT_S = 300  # it has 44 s of audio to go through
LEAD_S, TRAIL_S = 0.5, 2.0  # silence around the recording: a beginning to be noticed, an end to be waited for
QUICK_S = 12.0
METHOD = (
    "Real speech (A Tale of Two Cities, read). Costs are CPU time on one thread; latencies are of the audio "
    "at its own pace through Silero, listener and decode queue, without ring, denoiser and sockets: *final* "
    "is from the block that completes the endpoint silence to its text, *partial* from the last block heard. "
    "The peer is called once for each whole piece, as we are."
)
# Runs in the peer's interpreter: float32 on stdin, lengths in samples as arguments -> seconds each, as JSON.
_PEER = """
import json, sys, time
import numpy as np
from moonshine_voice import ModelArch, Transcriber, get_model_path
audio = np.frombuffer(sys.stdin.buffer.read(), "<f4").tolist()
peer = Transcriber(str(get_model_path("tiny-en")), ModelArch.TINY)
peer.transcribe_without_streaming(audio[:16000])
costs = []
for length in map(int, sys.argv[1:]):
    begun = time.process_time()
    peer.transcribe_without_streaming(audio[:length])
    costs.append(time.process_time() - begun)
print(json.dumps(costs))
"""


def _speech(store: ModelStore) -> Audio:
    """The recording at 16 kHz, with silence around it."""
    import soundfile
    from scipy.signal import resample_poly

    audio, rate = soundfile.read(store.require("demo-speech") / "two_cities.wav", dtype="float32")
    audio = resample_poly(audio, FRAME.rate_hz, rate)
    lead, trail = (np.zeros(int(s * FRAME.rate_hz)) for s in (LEAD_S, TRAIL_S))
    return np.concatenate([lead, audio, trail]).astype(np.float32)


def run(quick: bool) -> dict[str, Any]:
    """Measure and report. Raises ModelMissing when the models are not there."""
    report = Report("asr", "Recognition", METHOD, quick)
    store = configured_store()
    recognizer = load_recognizer(AsrConfig(), store)
    speech = _speech(store)
    _costs(report, recognizer, speech, repeats=2 if quick else 5)
    vad = SileroVad(store.require("silero-vad-6") / "silero_vad_16k_op15.onnx", 1)
    live = _Live(recognizer, vad)
    live.run(_cut(speech, QUICK_S) if quick else speech)
    live.report(report)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report.add("Peak memory of the process", peak, "MB", note="Python, both networks, the recording")
    return report.as_dict()


def _cut(speech: Audio, seconds: float) -> Audio:
    trail = np.zeros(int(TRAIL_S * FRAME.rate_hz), np.float32)
    return np.concatenate([speech[: int(seconds * FRAME.rate_hz)], trail])


# --- costs -------------------------------------------------------------------------------------------


def _costs(report: Report, recognizer: SegmentRecognizer, speech: Audio, repeats: int) -> None:
    pieces = [speech[: s * FRAME.rate_hz] for s in LENGTHS_S]
    whole = [_cost(recognizer, SegmentRequest(piece), repeats) for piece in pieces]
    again = [_cost(recognizer, _drafted(recognizer, piece), repeats) for piece in pieces]
    peer, why = _peer_costs(speech, [piece.size for piece in pieces])
    rows = [
        (f"{s}", f"{w * 1e3:.0f}", f"{a * 1e3:.0f}", f"{w / s:.4f}", f"{peer[i] * 1e3:.0f}" if peer else "–")
        for i, (s, w, a) in enumerate(zip(LENGTHS_S, whole, again, strict=True))
    ]
    head = ("s of audio", "ms, afresh", "ms, with a draft", "real-time factor", "peer, ms")
    report.table("CPU time of one decode", head, rows)
    report.add("Real-time factor", sum(whole) / sum(LENGTHS_S), "", target=0.10, note="decoding, one core")
    if peer:
        report.add("Real-time factor of the peer", sum(peer) / sum(LENGTHS_S), "", note="moonshine-voice")
    else:
        report.table("Peer", ("moonshine-voice was not run",), [(why,)])


def _drafted(recognizer: SegmentRecognizer, piece: Audio) -> SegmentRequest:
    """As a partial is asked for: with the tokens of the result on 0.3 s less."""
    before = piece[: -int(0.3 * FRAME.rate_hz)]
    return SegmentRequest(piece, draft=recognizer.transcribe([SegmentRequest(before)])[0].tokens)


def _cost(recognizer: SegmentRecognizer, request: SegmentRequest, repeats: int) -> float:
    """Median CPU seconds of one decode."""
    costs = []
    for _ in range(repeats):
        begun = time.process_time()
        recognizer.transcribe([request])
        costs.append(time.process_time() - begun)
    return float(np.median(costs))


def _peer_costs(speech: Audio, lengths: Sequence[int]) -> tuple[list[float], str]:
    """CPU seconds of the peer for each length, or nothing and why."""
    costs = ask_moonshine(_PEER, lengths, speech, PEER_TIMEOUT_S)
    return ([], costs) if isinstance(costs, str) else (costs, "")


# --- at the pace of speech ---------------------------------------------------------------------------


@dataclass
class _Live:
    """A recording at its own pace through VAD, listener and queue, with the times at which texts come."""

    recognizer: SegmentRecognizer
    vad: SileroVad
    partial_ms: list[float] = field(default_factory=list)
    first_partial_ms: list[float] = field(default_factory=list)
    final_ms: list[float] = field(default_factory=list)
    pauses_ms: list[float] = field(default_factory=list)  # between partials of an utterance
    speech_samples: int = 0
    cpu_s: float = 0.0
    coalesced: int = 0
    _begun: float = 0.0
    _started: int | None = None
    _last_partial: dict[int, float] = field(default_factory=dict)

    def run(self, speech: Audio) -> None:
        listener = Listener(VadConfig(), EndpointConfig(), AsrConfig(), FRAME.rate_hz, source="bench")
        slot = np.zeros(1, np.intp)
        self.vad.reset(slot)
        with DecodeQueue(self.recognizer) as queue:
            cpu = time.process_time()
            self._begun = time.monotonic()
            for first in range(0, speech.size - FRAME.block + 1, FRAME.block):
                self._until(first + FRAME.block, queue, listener)
                block = speech[first : first + FRAME.block]
                prob = float(self.vad.process(slot, block[None])[0])
                self._act(listener.accept(first, block, prob), queue)
            self._act(listener.finish("end_of_stream"), queue)
            while listener.pending and queue.wait(10.0):
                self._collect(queue, listener)
            self.cpu_s = time.process_time() - cpu
            self.coalesced = queue.statistics().coalesced

    def _now(self) -> float:
        """Seconds of the source clock."""
        return time.monotonic() - self._begun

    def _until(self, sample: int, queue: DecodeQueue, listener: Listener) -> None:
        """Take results until this sample has been spoken."""
        while (left := sample / FRAME.rate_hz - self._now()) > 0:
            queue.wait(left)
            self._collect(queue, listener)

    def _collect(self, queue: DecodeQueue, listener: Listener) -> None:
        for result in queue.results():
            if result.transcript is not None:
                self._events(listener.decoded(result.decode, result.transcript))

    def _act(self, actions: Sequence[Action], queue: DecodeQueue) -> None:
        for action in actions:
            if isinstance(action, Decode):
                queue.submit(action)
            else:
                self._events([action])

    def _events(self, events: Sequence[RecognitionEvent]) -> None:
        for event in events:
            if isinstance(event, SpeechStarted):
                self._started = event.sample
            elif isinstance(event, SpeechEnded):
                self.speech_samples += event.sample - (self._started or event.sample)
            elif isinstance(event, Partial):
                self._partial(event)
            elif event.reason == "silence":
                self.final_ms.append(self._final_latency(event) * 1e3)

    def _final_latency(self, event: Final) -> float:
        silence = EndpointConfig().silence_ms / 1000
        return self._now() - (event.end_sample / FRAME.rate_hz + silence)

    def _partial(self, event: Partial) -> None:
        now = self._now()
        self.partial_ms.append((now - event.end_sample / FRAME.rate_hz) * 1e3)
        if event.utt in self._last_partial:
            self.pauses_ms.append((now - self._last_partial[event.utt]) * 1e3)
        else:
            self.first_partial_ms.append((now - event.start_sample / FRAME.rate_hz) * 1e3)
        self._last_partial[event.utt] = now

    def report(self, report: Report) -> None:
        speech_s = self.speech_samples / FRAME.rate_hz
        note = (
            f"partials every {AsrConfig().partial_ms} ms; {speech_s:.0f} s of speech; finals and VAD included"
        )
        report.add(
            "CPU while someone speaks", 100 * self.cpu_s / speech_s, "% of a core", target=30, note=note
        )
        final = percentiles(self.final_ms)
        report.add("Final after the endpoint, median", final[50], "ms", note=f"{len(self.final_ms)} finals")
        report.add("Final after the endpoint, P95", final[95], "ms", target=150)
        first = percentiles(self.first_partial_ms)
        report.add("First partial after the first sound, median", first[50], "ms")
        partial = percentiles(self.partial_ms)
        report.add("Partial after its last sound, median", partial[50], "ms")
        report.add("Partial after its last sound, P95", partial[95], "ms")
        report.add(
            "From partial to partial, median", percentiles(self.pauses_ms)[50], "ms", note="pauses included"
        )
        report.add("Partials that a newer one replaced", self.coalesced, "")
