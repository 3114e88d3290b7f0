"""What a streaming model costs in cosyd and in sherpa-onnx, and whether both say the same."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.bench.report import Report, number
from cosyd.bench.streaming_model import Size, save_ctc, save_transducer
from cosyd.bench.text import edit_distance
from cosyd.spec import FRAME

Audio = NDArray[np.float32]

SECONDS = 6.0  # of each clip, as in the load test
STREAMS = 8
PIECE = 1_600  # samples a push: 100 ms
ROUNDS = 5  # of both in turn; the machine's speed changes, ratios of neighbours much less
MODEL_ENV = "COSYD_BENCH_MODEL"
DAMPING = 0.1  # of the model in 8 bits


@dataclass(frozen=True)
class Case:
    """A model and how it is searched."""

    name: str
    folder: Path
    paths: int = 1
    exact: bool = True  # whether the batch decides nothing about the arithmetic


def measure_costs(report: Report, clips: list[Audio], quick: bool) -> None:
    """Into the report: ratios of processor time and what differs. ``clips``: float32 at 16 kHz, ``STREAMS``
    of them, equally long."""
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
        damped = save_ctc(folder / "damped", Size(damping=DAMPING))
        yield Case("CTC int8", _int8(damped, folder / "ctc8"), exact=False)


def _int8(source: Path, folder: Path) -> Path:
    """As icefall's exports are made: products alone in 8 bits."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder.mkdir()
    shutil.copy(source / "tokens.txt", folder)
    files = source / "model.onnx", folder / "model.int8.onnx"
    quantize_dynamic(*files, op_types_to_quantize=["MatMul"], weight_type=QuantType.QInt8)
    return folder


Costs = dict[tuple[str, int], list[float]]
Tokens = list[list[str]]  # by clip


def _beside_sherpa(report: Report, case: Case, clips: list[Audio], rounds: int) -> list[tuple[str, ...]]:
    """Figures into the report; rows of the table."""
    peer = _peer(case)
    costs: Costs = {}
    said = Said()
    with _loaded(case.folder, case.paths) as recognizer:
        for _ in range(rounds):
            for count in (1, STREAMS):
                used = clips[:count]
                cost, ours = _timed(_cosyd, recognizer, used)
                costs.setdefault(("cosyd", count), []).append(cost)
                theirs = []
                for way, together in (("in turn", False), ("together", True)):
                    cost, text = _timed(_sherpa, peer, used, together)
                    costs.setdefault((way, count), []).append(cost)
                    theirs.append(text)
                said.add(ours, *theirs)
    report.add(f"{case.name}: 1 stream, cost / sherpa-onnx's", _ratio(costs, 1, "in turn"), "", target=1.0)
    many = f"{case.name}: {STREAMS} streams, cost / sherpa-onnx's"
    report.add(f"{many} in turn", _ratio(costs, STREAMS, "in turn"), "", target=0.6)
    report.add(f"{many} together", _ratio(costs, STREAMS, "together"), "")
    said.tell(report, case)
    return [_row(case.name, costs, count) for count in (1, STREAMS)]


class Said:
    """How much what is said differs."""

    def __init__(self) -> None:
        self._rounds = 0  # that differ in anything from one of sherpa-onnx's
        self._tokens = self._ours = self._theirs = 0

    def add(self, ours: Tokens, in_turn: Tokens, together: Tokens) -> None:
        self._rounds += (ours != in_turn) + (ours != together)
        if len(ours) < STREAMS:
            return  # one stream is the same to sherpa-onnx both ways
        self._tokens += sum(map(len, in_turn))
        self._ours += _distance(ours, in_turn)
        self._theirs += _distance(together, in_turn)

    def tell(self, report: Report, case: Case) -> None:
        if case.exact:
            report.add(f"{case.name}: rounds that differ from sherpa-onnx's", self._rounds, "", target=0.0)
            return
        ours, theirs = (100 * count / max(1, self._tokens) for count in (self._ours, self._theirs))
        note = f"of {self._tokens}; the target: sherpa-onnx's own together"
        name = f"{case.name}: tokens other than sherpa-onnx's in turn"
        report.add(name, ours, "%", target=theirs, note=note)


def _distance(tokens: Tokens, others: Tokens) -> int:
    return sum(edit_distance(a, b) for a, b in zip(tokens, others, strict=True))


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


def _timed(work: Callable[..., Tokens], *what: Any) -> tuple[float, Tokens]:
    begun = time.process_time()
    result = work(*what)
    return time.process_time() - begun, result


def _cosyd(recognizer: CachedStateRecognizer, clips: list[Audio]) -> Tokens:
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


def _sherpa(peer: Any, clips: list[Audio], together: bool) -> Tokens:
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
