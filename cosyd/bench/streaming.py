"""``cosyd bench streaming``: what streaming models cost beside sherpa-onnx on the same folder, under load,
and over hours.

The models that both run have random weights and the size, tensors and arithmetic of a streaming zipformer2
(see ``streaming_model``); what they say means nothing, and that both say the same is checked.
``COSYD_BENCH_MODEL`` names the folder of a real one, which then is measured instead.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.bench import speech
from cosyd.bench.parts import Parts, measure
from cosyd.bench.report import Report, number
from cosyd.bench.streaming_endurance import SOURCES, Endurance, Level, slope
from cosyd.bench.streaming_load import LOADS, measure_load
from cosyd.bench.streaming_model import save_ctc, save_transducer
from cosyd.errors import CosydError
from cosyd.spec import FRAME

Audio = NDArray[np.float32]

SECONDS = 6.0  # of each clip, as in the load test
STREAMS = 8
PIECE = 1_600  # samples a push: 100 ms
ROUNDS = 5  # of both in turn; the machine's speed changes, ratios of neighbours much less
MODEL_ENV = "COSYD_BENCH_MODEL"
OWN = Path(__file__).resolve().parents[3] / "shared" / "models" / "streaming-ctc-tiny"
HOURS = 1.0  # of audio in the endurance run; ``--hours 10`` is what the requirement says, and takes longer
ENOUGH_HOURS = 0.5  # so that a tenth of it is enough to warm up in
POINTS = 20  # measurements in it, of which the first tenth is the time of warming up
PHRASES = ("flat white", "oat milk", "no sugar")
METHOD = (
    "Real speech (LibriSpeech test-other, 6 s of each clip), pushed in pieces of 100 ms as fast as it "
    "is used up, the text asked for after each. Costs are CPU time of the process on one thread, "
    "features and search included; each ratio is the median of rounds in which both run in turn. *In "
    "turn*: sherpa-onnx decodes one stream after the other, as its programs for one microphone do; "
    "*together*: all that are ready in one call, as its server does. *Beam*: modified beam search, 4 "
    "paths; *int8*: products alone in 8 bits, as icefall exports them; rounds *differ* where any token "
    "does. Load: streams paced in real time through the daemon's own queue, begun within one chunk; "
    "*final* is from the last sample to the final text, *lag* from a chunk's last sample to the partial "
    "with it. Endurance: 8 sources at full speed, an utterance every 6 s, hotwords that are others in "
    "every second one, one source that never pauses, others that leave in the middle of a word and new "
    "ones that come; what has grown is told by the hour of audio."
)


@dataclass(frozen=True)
class Case:
    """A model and how it is searched."""

    name: str
    folder: Path
    paths: int = 1


def run(quick: bool, hours: float | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    """Measure and report. ``hours``: of audio in the endurance run. ``only``: these parts; of the others the
    kept report's results stay. None named: all. Raises CosydError without speech, UsageError."""
    report = Report("streaming", "Streaming models", METHOD, quick)
    samples = int(SECONDS * FRAME.rate_hz)
    clips = [clip.audio[:samples] for clip in speech.eval_clips("librispeech-other", 200)]
    clips = [clip for clip in clips if len(clip) == samples][:STREAMS]
    hours = hours or (0.05 if quick else HOURS)
    parts: Parts = {"cost": lambda report: _costs(report, clips, quick)}
    if OWN.is_dir() or only:
        parts = {
            **parts,
            "load": lambda report: measure_load(report, _own(), clips, LOADS[:2] if quick else LOADS),
            "endurance": lambda report: _endure(report, _own(), np.concatenate(clips), hours),
        }
    return measure(report, parts, only)


def _own() -> Path:
    """Raises CosydError when it is not there."""
    if not OWN.is_dir():
        raise CosydError(f"no {OWN}: the streaming example is not beside the repository")
    return OWN


def _costs(report: Report, clips: list[Audio], quick: bool) -> None:
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory(prefix="cosyd-bench-") as folder:
        for case in _cases(Path(folder), quick):
            rows += _beside_sherpa(report, case, clips, 2 if quick else ROUNDS)
    head = ("model", "streams", "cosyd", "sherpa-onnx, in turn", "together", "cosyd / in turn", "/ together")
    report.table("Real-time factor, CPU time for a second of audio of one stream", head, rows)


def _cases(folder: Path, quick: bool) -> Iterator[Case]:
    """What to compare on."""
    if named := os.environ.get(MODEL_ENV):
        given = Path(named)
        yield Case(given.name, given)
        if any(given.glob("joiner*.onnx")):
            yield Case(f"{given.name}, beam", given, 4)
        return
    ctc = save_ctc(folder / "ctc")
    transducer = save_transducer(folder / "transducer")
    yield Case("zipformer2 CTC", ctc)
    yield Case("transducer", transducer)
    yield Case("transducer, beam", transducer, 4)
    if not quick:
        yield Case("CTC int8", _int8(ctc, folder / "ctc8"))


def _int8(source: Path, folder: Path) -> Path:
    """As icefall's exports are made: products alone in 8 bits."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder.mkdir()
    shutil.copy(source / "tokens.txt", folder)
    files = source / "model.onnx", folder / "model.int8.onnx"
    quantize_dynamic(*files, op_types_to_quantize=["MatMul"], weight_type=QuantType.QInt8)
    return folder


# --- beside sherpa-onnx -----------------------------------------------------------------------------------

Costs = dict[tuple[str, int], list[float]]


def _beside_sherpa(report: Report, case: Case, clips: list[Audio], rounds: int) -> list[tuple[str, ...]]:
    """Figures into the report; rows of the table."""
    peer = _peer(case)
    costs: Costs = {}
    differing = 0
    with _loaded(case.folder, case.paths) as recognizer:
        for _ in range(rounds):
            for count in (1, STREAMS):
                used = clips[:count]
                cost, ours = _timed(lambda used=used: _cosyd(recognizer, used))  # type: ignore[misc]
                costs.setdefault(("cosyd", count), []).append(cost)
                for way, together in (("in turn", False), ("together", True)):
                    cost, theirs = _timed(lambda used=used, t=together: _sherpa(peer, used, t))  # type: ignore[misc]
                    costs.setdefault((way, count), []).append(cost)
                    differing += ours != theirs
    report.add(f"{case.name}: 1 stream, cost / sherpa-onnx's", _ratio(costs, 1, "in turn"), "", target=1.0)
    many = f"{case.name}: {STREAMS} streams, cost / sherpa-onnx's"
    report.add(f"{many} in turn", _ratio(costs, STREAMS, "in turn"), "", target=0.6)
    report.add(f"{many} together", _ratio(costs, STREAMS, "together"), "")
    report.add(f"{case.name}: rounds that differ from sherpa-onnx's", differing, "", target=0.0)
    return [_row(case.name, costs, count) for count in (1, STREAMS)]


def _ratio(costs: Costs, count: int, way: str) -> float:
    """Median over rounds."""
    pairs = zip(costs["cosyd", count], costs[way, count], strict=True)
    return float(np.median([ours / theirs for ours, theirs in pairs]))


def _row(name: str, costs: Costs, count: int) -> tuple[str, ...]:
    ways = ("cosyd", "in turn", "together")
    factors = [number(float(np.median(costs[way, count])) / SECONDS / count) for way in ways]
    return (name, str(count), *factors, *(number(_ratio(costs, count, way)) for way in ways[1:]))


@contextmanager
def _loaded(folder: Path, paths: int = 1) -> Iterator[CachedStateRecognizer]:
    recognizer = CachedStateRecognizer.load(folder, name=folder.name, paths=paths, capacity=STREAMS)
    try:
        recognizer.warm_up()
        yield recognizer
    finally:
        recognizer.close()


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def _cosyd(recognizer: CachedStateRecognizer, clips: list[Audio]) -> list[list[str]]:
    """The tokens of each clip; partial results are asked for after each piece, as a daemon does."""
    slots = [recognizer.open() for _ in clips]
    for start in range(0, len(clips[0]), PIECE):
        results = recognizer.accept(slots, [clip[start : start + PIECE] for clip in clips])
    for slot in slots:
        recognizer.streams.close(slot)
    pieces = recognizer.streams.model.tokens.pieces
    return [[pieces[token].replace("▁", " ") for token in result.tokens] for result in results]


def _peer(case: Case) -> Any:
    import sherpa_onnx

    files = {file.name.split(".")[0].split("-")[0]: str(file) for file in case.folder.glob("*.onnx")}
    common = {"tokens": str(case.folder / "tokens.txt"), "num_threads": 1}
    if "joiner" not in files:
        (model,) = files.values()
        return sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(model=model, **common)
    method = "greedy_search" if case.paths == 1 else "modified_beam_search"
    return sherpa_onnx.OnlineRecognizer.from_transducer(
        **files, **common, decoding_method=method, max_active_paths=max(case.paths, 4)
    )


def _sherpa(peer: Any, clips: list[Audio], together: bool) -> list[list[str]]:
    """The same of sherpa-onnx."""
    streams = [peer.create_stream() for _ in clips]
    for start in range(0, len(clips[0]), PIECE):
        for stream, clip in zip(streams, clips, strict=True):
            stream.accept_waveform(FRAME.rate_hz, clip[start : start + PIECE])
        while ready := [stream for stream in streams if peer.is_ready(stream)]:
            for batch in [ready] if together else [[stream] for stream in ready]:
                peer.decode_streams(batch)
        for stream in streams:
            peer.get_result(stream)
    return [list(peer.tokens(stream)) for stream in streams]


# --- over hours -------------------------------------------------------------------------------------------


def _endure(report: Report, folder: Path, audio: Audio, hours: float) -> None:
    recognizer = CachedStateRecognizer.load(folder, name=folder.name, capacity=SOURCES)
    recognizer.warm_up()
    endurance = Endurance(recognizer, audio, PHRASES)
    begun = time.process_time()
    levels = endurance.levels(hours, POINTS, _tell)
    took = time.process_time() - begun
    settled = levels[POINTS // 10 :]
    first, last = settled[0], settled[-1]
    many = f"{number(hours)} h of audio, {SOURCES} sources at a time"
    note = "slope after the first tenth"
    target = 1.0 if hours >= ENOUGH_HOURS else None
    report.add(f"{many}: memory", slope(settled), "MiB/h", target=target, note=note)
    report.add(f"{many}: Python's objects", last.blocks - first.blocks, "pieces more")
    report.add(f"{many}: open files", last.files - first.files, "more", target=0.0)
    report.add(f"{many}: threads", last.threads - first.threads, "more", target=0.0)
    report.add(f"{many}: real-time factor", took / hours / 3_600, "", note=f"{endurance.finals:,} finals")
    rows = [
        (
            number(each.hours),
            f"{each.rss_mib:.1f} MiB",
            f"{each.blocks:,}",
            str(each.files),
            str(each.streams),
        )
        for each in levels[POINTS // 10 - 1 :: 3]
    ]
    report.table("Endurance", ("hours", "memory", "Python's objects", "files", "streams"), rows)
    endurance.close()
    recognizer.close()


def _tell(level: Level) -> None:
    """Ten hours of audio take a quarter of an hour: how far it is."""
    sys.stderr.write(f"streaming: {number(level.hours)} h of audio, {level.rss_mib:.1f} MiB\n")
