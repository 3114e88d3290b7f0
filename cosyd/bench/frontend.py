"""``cosyd bench frontend``: what hearing costs, stage by stage and whole, in CPU time.

The published DTLN networks run hop by hop beside ours in the same run, because that is how they are used
elsewhere, and scipy's resampler (whole signals at a time) beside the streaming one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.bench.report import Report
from cosyd.config.schema import FrontendConfig
from cosyd.frontend.contract import STEP_BLOCKS
from cosyd.frontend.dtln import LAYERS, UNITS
from cosyd.frontend.factory import DENOISE_MODEL, make_denoiser, make_front_end, make_vad
from cosyd.frontend.filters import DcRemoval
from cosyd.frontend.front_end import FrontEnd
from cosyd.frontend.resample import Resampler
from cosyd.frontend.stage import Stage
from cosyd.models.configured import configured_store
from cosyd.models.onnx import open_session
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME, AudioSpec, SampleFormat

STREAMS = (1, 2, 4, 8)
RATES = (16_000, 44_100, 48_000, 96_000)
TOGETHER = (1, 2, 3, 8, STEP_BLOCKS)  # blocks at once: in a pause, in speech, in silence, catching up
PUSH_S = 0.01  # a device's block
TARGET = 3.0  # % of one core, one stream, everything on
METHOD = (
    "Pseudo-random noise; CPU time of the thread, so waiting for the core does not count, but what "
    "neighbours do to caches and clock does. Shares are of one core while audio comes at its own pace: the "
    "CPU time of a block of 32 ms over 32 ms. Medians. *Published* is DTLN's own two files run once a hop."
)


def _median_us(work: Callable[[], object], times: int) -> float:
    """CPU time of one call in µs."""
    for _ in range(10):
        work()
    spent = []
    for _ in range(times):
        begun = time.thread_time_ns()
        work()
        spent.append(time.thread_time_ns() - begun)
    return float(np.median(spent)) / 1000


def _noise(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(shape, np.float32) * np.float32(0.05)


def _share(block_us: float) -> float:
    """% of one core."""
    return block_us / (FRAME.block_ms * 10)


def _stage_us(stage: Stage, streams: int, times: int) -> float:
    slots = np.arange(streams)
    x = _noise(streams, FRAME.block)
    return _median_us(lambda: stage.process(slots, x), times)


def _published_us(folder: Path, times: int) -> float:
    """A block of the published networks: four hops, spectra included."""
    first, second = open_session(folder / "model_1.onnx"), open_session(folder / "model_2.onnx")
    state = np.zeros((1, LAYERS, UNITS, 2), np.float32)
    window = _noise(FRAME.window)

    def hop() -> None:
        spectrum = np.fft.rfft(window)
        magnitude = np.abs(spectrum).reshape(1, 1, -1).astype(np.float32)
        mask, _ = first.run({"input_2": magnitude, "input_3": state})
        frame = np.fft.irfft(spectrum * mask[0, 0]).reshape(1, 1, -1).astype(np.float32)
        second.run({"input_4": frame, "input_5": state})

    return FRAME.block_hops * _median_us(hop, times)


def _resample_us(rate: int, times: int) -> float:
    """A block's worth of input, pushed and taken."""
    resampler = Resampler(rate)
    piece = _noise(rate * FRAME.block // FRAME.rate_hz)

    def work() -> None:
        resampler.push(piece)
        while resampler.take() is not None:
            pass

    return _median_us(work, times)


def _scipy_us(rate: int, times: int) -> float:
    """The same with scipy.signal.resample_poly over a second at a time, which knows no pieces."""
    from math import gcd

    from scipy import signal

    second = _noise(rate)
    common = gcd(rate, FRAME.rate_hz)
    up, down = FRAME.rate_hz // common, rate // common
    blocks = FRAME.rate_hz / FRAME.block
    return _median_us(lambda: signal.resample_poly(second, up, down), max(3, times // 30)) / blocks


def _whole_us(front_end: FrontEnd, spec: AudioSpec, seconds: float, push_s: float = PUSH_S) -> float:
    """CPU time a block of one stream, pushed as a device delivers, or as much at a time as ``push_s``."""
    slot = front_end.open(spec)
    piece = (_noise(spec.frames(push_s), spec.channels) * 32767).astype(np.int16)
    blocks, at = 0, 0
    begun = time.thread_time_ns()
    for _ in range(round(seconds / push_s)):
        at += front_end.push(slot, piece, at)
        while (batch := front_end.step()) is not None:
            blocks += len(batch.slots)
    spent = time.thread_time_ns() - begun
    front_end.close(slot)
    return spent / 1000 / blocks


def _stages(report: Report, store: ModelStore, times: int) -> None:
    stages: dict[str, Stage] = {
        "DC removal": DcRemoval(max(STREAMS)),
        "DTLN": make_denoiser(store, max(STREAMS)),
        "Silero VAD": make_vad(store, max(STREAMS)),
    }
    rows = []
    for name, stage in stages.items():
        each = [_stage_us(stage, streams, times) / streams for streams in STREAMS]
        rows.append((name, *(f"{us:.0f}" for us in each)))
        if name == "DTLN":
            report.add("DTLN, a block", each[0], "µs")
    published = _published_us(store.path(DENOISE_MODEL), times)
    report.add("DTLN as published, a block", published, "µs")
    head = ("stage", *(f"{streams} streams" if streams > 1 else "1 stream" for streams in STREAMS))
    report.table("µs a block and stream, by how many streams share the call", head, rows)


def _resampling(report: Report, times: int) -> None:
    rows = [(f"{r} Hz", f"{_resample_us(r, times):.0f}", f"{_scipy_us(r, times):.0f}") for r in RATES]
    report.table(
        "Resampling to 16 kHz, µs a block", ("from", "cosyd, streaming", "scipy, whole seconds"), rows
    )


def _whole(report: Report, store: ModelStore, seconds: float) -> None:
    spec = AudioSpec(48_000, 4, SampleFormat.S16)
    settings = {
        "everything on": FrontendConfig(denoise="dtln", asr_input="blend", blend=0.5, denoise_rests=False),
        "nobody speaks, the denoiser rests": FrontendConfig(denoise="dtln", asr_input="blend", blend=0.5),
        "without the denoiser": FrontendConfig(denoise="off", asr_input="raw"),
    }
    for name, config in settings.items():
        front_end = make_front_end(config, store)
        share = _share(_whole_us(front_end, spec, seconds))
        target = TARGET if name == "everything on" else None
        report.add(f"Front end, {name}", share, "% of a core", target=target, note=f"one stream, {spec}")


def _together(report: Report, store: ModelStore, seconds: float) -> None:
    """What a block costs when several come at once."""
    spec = AudioSpec(16_000, 1, SampleFormat.S16)
    rows = []
    for name, rests in (("the denoiser works", False), ("the denoiser rests", True)):
        front_end = make_front_end(FrontendConfig(denoise_rests=rests), store)
        pushes_s = [blocks * FRAME.block_ms / 1000 for blocks in TOGETHER]
        rows.append((name, *(f"{_whole_us(front_end, spec, seconds, push_s):.0f}" for push_s in pushes_s)))
    head = ("one stream, 16 kHz", *(f"{n} blocks" if n > 1 else "1 block" for n in TOGETHER))
    report.table("Whole front end, µs a block, by how many blocks come at once", head, rows)


def run(quick: bool) -> dict[str, Any]:
    """Measure everything; ``quick`` takes a tenth of the calls."""
    times = 60 if quick else 600
    report = Report("frontend", "The front end on the CPU", METHOD, quick)
    store = configured_store()
    _whole(report, store, 6 if quick else 60)
    _together(report, store, 6 if quick else 60)
    _stages(report, store, times)
    _resampling(report, times)
    return report.as_dict()
