"""Which precision of a model's encoder runs, where its folder holds several: by the number of streams.

Eight-bit weights are read twice to four times as fast, which is what counts for one stream; for many the
arithmetic counts, and whether that is faster in eight bits depends on the processor. So both are run, once,
when the model is loaded, for one stream and for as many as are to come, and each number of streams gets the
faster one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cosyd.asr.streaming.batch import zero_feeds
from cosyd.asr.streaming.folder import CPU_ORDER, Precision
from cosyd.asr.streaming.spec import EncoderSpec
from cosyd.engine.by_batch import EngineByBatch
from cosyd.engine.protocol import Engine

Array = NDArray[Any]
Clock = Callable[[], float]

GPU_ORDER: tuple[Precision, ...] = ("fp16", "fp32", "int8")
MARGIN = 0.9  # of its time: less is not worth it, and measuring is that inexact
REPEATS = 3  # steps of which the quickest counts
MOST_TRIED = 8  # streams; a step of more takes too long to try, and the ratio hardly changes


@dataclass(frozen=True)
class Timing:
    """Seconds that a step takes, of one stream and of several."""

    one: float
    several: float


def measure(spec: EncoderSpec, engine: Engine, n: int, clock: Clock) -> Timing:
    return Timing(*(_quickest(engine, zero_feeds(spec, engine, each), clock) for each in (1, n)))


def _quickest(engine: Engine, feeds: Mapping[str, Array], clock: Clock) -> float:
    engine.run(feeds)  # what is made once is no part of a step
    times = []
    for _ in range(REPEATS):
        begun = clock()
        engine.run(feeds)
        times.append(clock() - begun)
    return min(times)


@dataclass(frozen=True)
class Chosen:
    """``precision``: of a step of one stream; ``reason``: what was chosen and why, in a few words."""

    engine: Engine
    precision: Precision
    reason: str


def choose_precision(
    encoders: Mapping[Precision, Path],
    open_engine: Callable[[Path], Engine],
    describe: Callable[[Engine], EncoderSpec],
    streams: int,
    clock: Clock = time.perf_counter,
) -> Chosen:
    """For so many streams. Raises ModelDamaged for a file that is none.

    On a GPU nothing is measured: it computes float16 at twice the speed of float32 or more, and 8-bit files
    as they lie in model folders are made for processors.
    """
    with ExitStack() as opened:
        engines: dict[Precision, Engine] = {}
        for precision in (each for each in GPU_ORDER if each in encoders):
            engine = engines[precision] = open_engine(encoders[precision])
            opened.callback(engine.close)
            if engine.memory.device != "cpu":
                opened.pop_all()
                return Chosen(engine, precision, f"{precision}, the best of its files on a GPU")
        chosen = _measured(engines, describe(engine), streams, clock)
        opened.pop_all()
    for engine in engines.values():
        if engine not in (chosen.engine, *getattr(chosen.engine, "parts", ())):
            engine.close()
    return chosen


def _measured(
    engines: Mapping[Precision, Engine],
    spec: EncoderSpec,
    streams: int,
    clock: Clock,
) -> Chosen:
    n = min(streams, MOST_TRIED) if spec.batchable else 1
    timings = {each: measure(spec, engines[each], n, clock) for each in CPU_ORDER if each in engines}
    few = _fastest({each: timing.one for each, timing in timings.items()})
    many = _fastest({each: timing.several for each, timing in timings.items()})
    why = _told(timings, n)
    one, other = engines[few], engines[many]
    if few == many or (one.inputs, one.outputs) != (other.inputs, other.outputs):
        return Chosen(other, many, f"{many}, the fastest here for {_streams(n)} ({why})")
    most = _crossing(timings[few], timings[many], n)
    reason = f"{few} for up to {_streams(most)} a step, {many} for more ({why})"
    return Chosen(EngineByBatch(one, other, most, spec.x), few, reason)


def _fastest(times: Mapping[Precision, float]) -> Precision:
    """Of nearly equal ones the first."""
    best, *others = times
    for each in others:
        if times[each] < MARGIN * times[best]:
            best = each
    return best


def _crossing(few: Timing, many: Timing, n: int) -> int:
    """The largest batch for which ``few`` is the faster, when time grows linearly with the streams."""
    gains = few.one - many.one, few.several - many.several  # below 0, then above
    return min(n - 1, max(1, int(1 - gains[0] / (gains[1] - gains[0]) * (n - 1))))


def _told(timings: Mapping[Precision, Timing], n: int) -> str:
    told = [
        f"{each} {1e3 * timing.one:.1f} and {1e3 * timing.several:.1f} ms" for each, timing in timings.items()
    ]
    return f"a step of 1 and of {n}: {', '.join(told)}"


def _streams(n: int) -> str:
    return "1 stream" if n == 1 else f"{n} streams"
