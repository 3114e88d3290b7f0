"""``cosyd bench streaming``: what streaming models cost, beside sherpa-onnx on the same folder, under load.

The model that both run has random weights and the size, tensors and arithmetic of a streaming zipformer2 (see
``streaming_model``); what it says means nothing, and that both say the same is checked. ``COSYD_BENCH_MODEL``
names the folder of a real one, which then is measured instead.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.chunk import Chunk
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.asr.streaming.stream_queue import StreamQueue
from cosyd.bench import speech
from cosyd.bench.report import Report, percentiles
from cosyd.bench.streaming_model import save_ctc, save_transducer
from cosyd.spec import FRAME

Audio = NDArray[np.float32]

SECONDS = 6.0  # of each clip, as in the load test
STREAMS = 8
PIECE = 1_600  # samples a push: 100 ms
ROUNDS = 5  # of both in turn; the machine's speed changes, ratios of neighbours much less
MODEL_ENV = "COSYD_BENCH_MODEL"
OWN = Path(__file__).resolve().parents[3] / "shared" / "models" / "streaming-ctc-tiny"
LOADS = (1, 8, 32, 64)
METHOD = (
    "Real speech (LibriSpeech test-other, 6 s of each clip), pushed in pieces of 100 ms as fast as it is "
    "used up. Costs are CPU time of the process on one thread, features and search included; each ratio is "
    "the median of rounds in which both run in turn. *In turn*: sherpa-onnx decodes one stream after the "
    "other, as its programs for one microphone do; *together*: all that are ready in one call, as its server "
    "does. Load: streams paced in real time through the daemon's own queue, begun within one chunk; *final* "
    "is from the last sample to the final text, *lag* from a chunk's last sample to the partial with it."
)


def run(quick: bool) -> dict[str, Any]:
    """Measure and report. Raises ModelMissing when there is no speech."""
    report = Report("streaming", "Streaming models", METHOD, quick)
    samples = int(SECONDS * FRAME.rate_hz)
    clips = [clip.audio[:samples] for clip in speech.eval_clips("librispeech-other", 200)]
    clips = [clip for clip in clips if len(clip) == samples][:STREAMS]
    with tempfile.TemporaryDirectory(prefix="cosyd-bench-") as folder:
        for name, model in _models(Path(folder), quick).items():
            _beside_sherpa(report, name, model, clips, 2 if quick else ROUNDS)
    if OWN.is_dir():
        _load(report, OWN, clips, LOADS[:2] if quick else LOADS)
    return report.as_dict()


def _models(folder: Path, quick: bool) -> dict[str, Path]:
    """What to compare on, by name."""
    if named := os.environ.get(MODEL_ENV):
        return {Path(named).name: Path(named)}
    models = {
        "zipformer2 CTC": save_ctc(folder / "ctc"),
        "transducer": save_transducer(folder / "transducer"),
    }
    if not quick:
        models["CTC int8"] = _int8(models["CTC"], folder / "ctc8")
    return models


def _int8(source: Path, folder: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder.mkdir()
    shutil.copy(source / "tokens.txt", folder)
    quantize_dynamic(source / "model.onnx", folder / "model.int8.onnx", weight_type=QuantType.QInt8)
    return folder


# --- beside sherpa-onnx -----------------------------------------------------------------------------------


def _beside_sherpa(report: Report, name: str, folder: Path, clips: list[Audio], rounds: int) -> None:
    peer = _peer(folder)
    recognizer = CachedStateRecognizer.load(folder, name=name, capacity=STREAMS)
    recognizer.warm_up()
    costs: dict[str, list[float]] = {}
    differing = 0
    for _ in range(rounds):
        for count in (1, STREAMS):
            used = clips[:count]
            cost, ours = _timed(lambda used=used: _cosyd(recognizer, used))  # type: ignore[misc]
            costs.setdefault(f"cosyd {count}", []).append(cost)
            for way, together in (("in turn", False), ("together", True)):
                cost, theirs = _timed(lambda used=used, t=together: _sherpa(peer, used, t))  # type: ignore[misc]
                costs.setdefault(f"{way} {count}", []).append(cost)
                # A network with random weights is chaotic: the last bit of another batch size changes all.
                differing += (together or count == 1) and ours != theirs
    recognizer.close()
    _tell(report, name, costs, differing)


def _tell(report: Report, name: str, costs: dict[str, list[float]], differing: int) -> None:
    def ratio(count: int, way: str) -> float:
        pairs = zip(costs[f"cosyd {count}"], costs[f"{way} {count}"], strict=True)
        return float(np.median([ours / theirs for ours, theirs in pairs]))

    rtf = float(np.median(costs["cosyd 1"])) / SECONDS
    many = f"{name}: {STREAMS} streams, cost / sherpa-onnx's"
    report.add(f"{name}: real-time factor, 1 stream", rtf, "")
    report.add(f"{name}: 1 stream, cost / sherpa-onnx's", ratio(1, "in turn"), "", target=1.0)
    report.add(f"{many} in turn", ratio(STREAMS, "in turn"), "", target=0.6)
    report.add(f"{many} together", ratio(STREAMS, "together"), "")
    report.add(f"{name}: rounds that differ from sherpa-onnx's", differing, "", target=0.0)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def _cosyd(recognizer: CachedStateRecognizer, clips: list[Audio]) -> list[int]:
    """How many tokens each clip has; partial results are asked for after each piece, as a daemon does."""
    slots = [recognizer.open() for _ in clips]
    for start in range(0, len(clips[0]), PIECE):
        results = recognizer.accept(slots, [clip[start : start + PIECE] for clip in clips])
    for slot in slots:
        recognizer.streams.close(slot)
    return [len(result.tokens) for result in results]


def _peer(folder: Path) -> Any:
    import sherpa_onnx

    files = {file.name.split(".")[0].split("-")[0]: str(file) for file in folder.glob("*.onnx")}
    common = {"tokens": str(folder / "tokens.txt"), "num_threads": 1}
    if "joiner" in files:
        return sherpa_onnx.OnlineRecognizer.from_transducer(**files, **common)
    (model,) = files.values()
    return sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(model=model, **common)


def _sherpa(peer: Any, clips: list[Audio], together: bool) -> list[int]:
    streams = [peer.create_stream() for _ in clips]
    for start in range(0, len(clips[0]), PIECE):
        for stream, clip in zip(streams, clips, strict=True):
            stream.accept_waveform(FRAME.rate_hz, clip[start : start + PIECE])
        while ready := [stream for stream in streams if peer.is_ready(stream)]:
            for batch in [ready] if together else [[stream] for stream in ready]:
                peer.decode_streams(batch)
        for stream in streams:
            peer.get_result(stream)
    return [len(peer.tokens(stream)) for stream in streams]


# --- load -------------------------------------------------------------------------------------------------


@dataclass
class _Paced:
    """One stream of the load test: when its pieces are due, and when its results came."""

    source: str
    clip: Audio
    begun: float
    sent: int = 0
    lags: list[float] = field(default_factory=list)
    first: float | None = None
    final: float | None = None

    @property
    def due(self) -> float:
        return self.begun + min(self.sent + FRAME.block, len(self.clip)) / FRAME.rate_hz

    @property
    def done(self) -> bool:
        return self.sent >= len(self.clip)

    def next(self) -> Chunk:
        piece = self.clip[self.sent : self.sent + FRAME.block]
        self.sent += len(piece)
        last = self.done
        return Chunk(
            id=self.sent,
            source=self.source,
            utt=1,
            kind="final" if last else "partial",
            audio=piece,
            start_sample=self.sent - len(piece),
            end_sample=self.sent,
            anchor=0,
            blocks=self.sent // FRAME.block,
            ends="utterance" if last else "",
        )

    def came(self, now: float, heard: int, kind: str) -> None:
        spoken = self.begun + heard / FRAME.rate_hz
        if kind == "final":
            self.final = now - spoken
        else:
            self.lags.append(now - spoken)
            self.first = self.first if self.first is not None else now - self.begun


def _load(report: Report, folder: Path, clips: list[Audio], loads: Sequence[int]) -> None:
    recognizer = CachedStateRecognizer.load(folder, name=folder.name, capacity=max(loads))
    recognizer.warm_up()
    rows = []
    for count in loads:
        cpu, begun = time.process_time(), time.monotonic()
        streams = _pace(recognizer, clips, count)
        took = time.monotonic() - begun
        share = (time.process_time() - cpu) / took
        lags = percentiles([lag for stream in streams for lag in stream.lags], (50, 99))
        finals = percentiles([stream.final for stream in streams if stream.final is not None], (50, 99))
        first = percentiles([stream.first for stream in streams if stream.first is not None], (50,))
        cells = (first[50], lags[50], lags[99], finals[50], finals[99])
        rows.append((str(count), *(f"{value * 1000:.0f} ms" for value in cells), f"{share:.0%}"))
    recognizer.close()
    head = ("streams", "first partial", "lag P50", "lag P99", "final P50", "final P99", "processor")
    report.table(f"Live load, {folder.name}", head, rows)


def _pace(recognizer: CachedStateRecognizer, clips: list[Audio], count: int) -> list[_Paced]:
    """All streams at their own pace through one queue, until the last final is there."""
    now = time.monotonic()
    streams = [
        _Paced(f"s{i}", clips[i % len(clips)], now + 0.32 * i / count)  # chunks of all do not end together
        for i in range(count)
    ]
    by_source = {stream.source: stream for stream in streams}
    with StreamQueue(recognizer) as queue:
        while any(stream.final is None for stream in streams):
            now = time.monotonic()
            for stream in streams:
                while not stream.done and stream.due <= now:
                    queue.submit(stream.next())
            open_ones = [stream.due for stream in streams if not stream.done]
            queue.wait(max(0.001, min(open_ones, default=now + 0.05) - time.monotonic()))
            for result in queue.results():
                decode = result.decode
                by_source[decode.source].came(time.monotonic(), decode.end_sample, decode.kind)
    return streams
