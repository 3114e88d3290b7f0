"""Ten hours of many streams, on a small model whose features are made ahead: nothing grows."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import streaming_graphs as graphs
import streaming_models as small
from numpy.typing import NDArray

from cosyd.asr.decoders.transducer import DecoderCache
from cosyd.asr.streaming.features import FbankStream, FeatureSpec
from cosyd.asr.streaming.model import StreamingModel
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.bench.streaming_endurance import Endurance, Level, level

HOURS = 10.0
KIB = 1 << 10
SOUNDS = np.random.default_rng(0).normal(-7, 3, (250, graphs.BINS)).astype(np.float32)
FRAMES = np.repeat(SOUNDS, 24, axis=0)  # four sounds a second, so that about as many tokens are said


class PreparedStream:
    """Frames as many as the samples make, without computing them."""

    def __init__(self, spec: FeatureSpec) -> None:
        self._spec = spec
        self._samples = self._taken = 0

    def accept(self, audio: NDArray[np.float32]) -> None:
        self._samples += len(audio)

    @property
    def ready(self) -> int:
        return self._samples // self._spec.shift - self._taken

    def window(self, frames: int, advance: int) -> NDArray[np.float32]:
        begin = self._taken % (len(FRAMES) - frames)
        self._taken += advance
        return FRAMES[begin : begin + frames]


@dataclass(frozen=True)
class Prepared(FeatureSpec):
    def open(self) -> PreparedStream:
        return PreparedStream(self)


def load(folder: Path, paths: int) -> CachedStateRecognizer:
    model = StreamingModel.load(folder)
    model.spec = replace(model.spec, feature=Prepared())
    return CachedStateRecognizer(model, name="small", paths=paths, capacity=8)


SAVES: dict[str, Callable[[Path], Path]] = {
    "CTC": lambda path: small.save_zipformer2_ctc(path, 256),
    "transducer": lambda path: small.save_transducer(path, "zipformer2", chunk=256),
}


@dataclass(frozen=True)
class Life:
    """What long use left behind. ``traced``: bytes that Python holds near its end, twice."""

    levels: list[Level]
    traced: list[int]
    heard_s: float
    finals: int
    streams: int


def live(family: str, paths: int, hours: float, folder: Path) -> Life:
    recognizer = load(SAVES[family](folder / "model"), paths)
    endurance = Endurance(recognizer, np.zeros(64_000, np.float32), ("你好", "世界声", "好"), piece_s=3.0)
    levels = endurance.levels(hours * 0.9, 3)
    tracemalloc.start()
    traced = []
    for part in (0.05, 0.05):
        endurance.levels(hours * part, 1)
        traced.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    endurance.close()
    life = Life(levels, traced, endurance.heard_s, endurance.finals, len(recognizer.streams))
    recognizer.close()
    return life


@pytest.fixture
def alone() -> Iterator[Executor]:
    """A process of its own: how much memory this one has depends on the tests before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        yield executor


@pytest.mark.parametrize(("family", "paths", "share"), [("CTC", 1, 0.95), ("transducer", 4, 0.05)])
def test_ten_hours_of_streams_that_come_and_go_leave_nothing_behind(
    family: str, paths: int, share: float, alone: Executor, tmp_path: Path
) -> None:
    """Field case 20. Nearly all of them greedy, except for streams with hotwords; the rest through the
    transducer's beam search, where several hypotheses of each frame could be left behind."""
    hours = HOURS * share
    life = alone.submit(live, family, paths, hours, tmp_path).result()
    flat(life.levels[0], life.levels[-1])
    assert life.traced[1] - life.traced[0] < 64 * KIB
    assert life.heard_s >= hours * 3_600
    assert life.finals > 0.8 * life.heard_s / 6
    assert life.streams == 0


def flat(early: Level, late: Level) -> None:
    assert late.blocks - early.blocks < 500  # of some 200,000; texts of all streams are longer or shorter
    assert late.rss_mib - early.rss_mib < 1.0
    assert (late.files, late.threads) == (early.files, early.threads)
    assert late.streams <= 8


def feed_features() -> list[float]:
    """MiB after each minute of audio, which is 3.7 MiB of samples and 1.8 MiB of features."""
    stream, minute = FbankStream(FeatureSpec()), np.zeros(60 * 16_000, np.float32)
    sizes = []
    for _ in range(12):
        stream.accept(minute)
        while stream.ready >= 32:
            stream.window(32, 32)
        sizes.append(level(0.0, streams=1).rss_mib)
    return sizes


def test_features_forget_what_they_have_given(alone: Executor) -> None:
    """In the library, too. What a minute needed goes back late at times: only the least of a while counts."""
    sizes = alone.submit(feed_features).result()
    assert min(sizes[6:]) - min(sizes[:6]) < 1.0


def test_the_cache_of_contexts_has_an_end() -> None:
    class Networks:
        context_size, vocabulary, unk = 2, 9, None

        def run_decoder(self, contexts: NDArray[np.int64]) -> NDArray[np.float32]:
            return contexts.astype(np.float32)

        def run_joiner(self, encoder_out: NDArray[np.float32], decoder_out: NDArray[np.float32]) -> None:
            raise AssertionError

    cache = DecoderCache(Networks(), size=100)  # type: ignore[arg-type]
    for begin in range(0, 1_000, 7):
        contexts = np.arange(2 * begin, 2 * begin + 14).reshape(7, 2)
        np.testing.assert_array_equal(cache.run(contexts), contexts)
        assert len(cache) <= 100
