"""``cosyd bench words``: how well the times of words fit, measured where they are known.

Two recordings, cut to the sound in them, are joined with silence before, between and after. So the
beginning of the first word of each and the end of its last are known, whatever the recogniser says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.recognizers import load_recognizer
from cosyd.bench.report import Report, percentiles
from cosyd.bench.speech import Audio, Clip, eval_clips, mix, noise
from cosyd.bench.text import normalise
from cosyd.config.schema import AsrConfig
from cosyd.models.configured import configured_store
from cosyd.spec import FRAME
from cosyd.types import Word

PAIRS, QUICK_PAIRS = 40, 8
LONGEST_S = 6.0  # of one recording of a pair
SOUND_DB = 35.0  # below the loudest 5 ms: silence
SNR_DB = 10.0
SEED = 7
METHOD = (
    "Pairs of coffee commands, cut to their sound (within "
    f"{SOUND_DB:.0f} dB of the loudest 5 ms) and joined with 0.1 to 0.7 s of silence, clean and with kitchen "
    f"noise at {SNR_DB:.0f} dB. The joints are the reference, not another aligner. *Start* and *end* are "
    "those of the first and last word of each recording, where it and its neighbour were recognised; the "
    "error is its time minus the known one. "
    "What is known to be sound begins and ends a little inside the words, at their soft edges."
)


@dataclass(frozen=True)
class Pair:
    """``first`` words are of the first recording. ``edges``: its start and end, the second's, in seconds."""

    audio: Audio
    words: tuple[str, ...]
    first: int
    edges: tuple[float, float, float, float]


@dataclass
class Errors:
    """In milliseconds."""

    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    edges: int = 0  # that are known

    def add(self, pair: Pair, words: Sequence[Word]) -> None:
        """Of an edge at which something else was heard nothing can be told."""
        self.edges += 4
        heard = _places(pair.words, words)
        last, over = pair.first - 1, len(pair.words) - 1
        for at, inside, known in ((0, 1, 0), (pair.first, pair.first + 1, 2)):
            if at in heard and inside in heard:
                self.start.append(1e3 * (words[heard[at]].start - pair.edges[known]))
        for at, inside, known in ((last, last - 1, 1), (over, over - 1, 3)):
            if at in heard and inside in heard:
                self.end.append(1e3 * (words[heard[at]].end - pair.edges[known]))


def _places(spoken: Sequence[str], words: Sequence[Word]) -> dict[int, int]:
    """Where each spoken word stands among those heard, of the words that were heard right."""
    from rapidfuzz.distance import Levenshtein

    heard = [normalise(word.w) for word in words]
    return {
        block.a + i: block.b + i
        for block in Levenshtein.editops(list(spoken), heard).as_matching_blocks()
        for i in range(block.size)
    }


def run(quick: bool) -> dict[str, Any]:
    """Measure and report. Raises CosydError without recordings or model."""
    report = Report("words", "Times of words", METHOD, quick)
    recognizer = load_recognizer(AsrConfig(), configured_store())
    pairs = list(_pairs(QUICK_PAIRS if quick else PAIRS))
    kitchen = noise("kitchen")
    noisy = [
        Pair(mix(pair.audio, kitchen, SNR_DB, i), pair.words, pair.first, pair.edges)
        for i, pair in enumerate(pairs)
    ]
    _tell(report, "clean", _errors(recognizer, pairs))
    _tell(report, f"kitchen noise {SNR_DB:.0f} dB", _errors(recognizer, noisy))
    return report.as_dict()


def _errors(recognizer: SegmentRecognizer, pairs: Sequence[Pair]) -> Errors:
    errors = Errors()
    for pair in pairs:
        errors.add(pair, recognizer.transcribe([SegmentRequest(pair.audio, words=True)])[0].words)
    return errors


def _tell(report: Report, speech: str, errors: Errors) -> None:
    for name, found in (("Start", errors.start), ("End", errors.end)):
        note = f"{len(found)} of {errors.edges // 2}"
        size = percentiles(np.abs(found).tolist(), (50, 90))
        report.add(f"{name}, {speech}: median error", size[50], "ms", note=note)
        report.add(f"{name}, {speech}: 90 % within", size[90], "ms")
        report.add(f"{name}, {speech}: mean, late is above 0", float(np.mean(found or [np.nan])), "ms")


def _pairs(count: int) -> Iterator[Pair]:
    rng = np.random.default_rng(SEED)
    clips = [
        clip
        for clip in map(_cut, eval_clips("coffee-commands"))
        if clip.audio.size < LONGEST_S * FRAME.rate_hz
    ]
    for _ in range(count):
        a, b = (clips[i] for i in rng.choice(len(clips), 2, replace=False))
        lead, gap = rng.uniform(0.2, 0.5), rng.uniform(0.1, 0.7)
        parts = [_silence(lead), a.audio, _silence(gap), b.audio, _silence(0.5)]
        edges = np.cumsum([part.size for part in parts[:4]]) / FRAME.rate_hz
        first = normalise(a.text).split()
        words = (*first, *normalise(b.text).split())
        start, end, again, over = (float(edge) for edge in edges)
        yield Pair(np.concatenate(parts), words, len(first), (start, end, again, over))


def _silence(seconds: float) -> Audio:
    return np.zeros(int(seconds * FRAME.rate_hz), np.float32)


def _cut(clip: Clip) -> Clip:
    """Without what is before and after the sound."""
    hop = FRAME.rate_hz // 200
    power = np.square(clip.audio[: clip.audio.size // hop * hop].reshape(-1, hop)).mean(axis=1)
    loud = np.flatnonzero(power > power.max() * 10 ** (-SOUND_DB / 10))
    return Clip(clip.set, clip.file, clip.text, clip.audio[loud[0] * hop : (loud[-1] + 1) * hop])
