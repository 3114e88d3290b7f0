"""``cosyd bench hotwords``: what favouring phrases does to commands, and what it does to other speech.

Speech of the evaluation sets, which nothing here was tuned on. Each piece of audio is encoded once for every
way of decoding.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.asr.hotwords import Hotword
from cosyd.asr.moonshine import HOTWORD_BEAM
from cosyd.asr.moonshine_hotwords import DEFAULT_SCORE
from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.recognizers import load_recognizer
from cosyd.bench.report import Report
from cosyd.bench.speech import Audio, Clip, eval_clips, mix, noise
from cosyd.bench.text import normalise
from cosyd.config.paths import Paths
from cosyd.config.schema import AsrConfig, Config, PathsConfig
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME

DRINKS = ("americano", "cappuccino", "latte", "mocha", "espresso", "coffee", "drip coffee", "iced coffee")
ROASTS = ("light roast", "medium roast", "dark roast")
SIZES = (
    "small",
    "medium",
    "large",
    "eight ounce",
    "twelve ounce",
    "sixteen ounce",
    "twenty ounce",
)
PHRASES = (*DRINKS, "iced mocha", "house coffee", *ROASTS, *SIZES)
KITCHEN_DB = (10, 5)
CLIPS, QUICK_CLIPS = 36, 6
PIPELINE_CLIPS = 24
METHOD = (
    f"Drinks, roasts and sizes of coffee-commands ({len(PHRASES)} phrases, score {DEFAULT_SCORE:g}) as "
    "hotwords. *Greedy* is the recogniser as it is without hotwords and with asr.beam 1; *beam* is its "
    f"search with {HOTWORD_BEAM} paths and no hotwords, which tells how much of the gain is the search's. "
    "Word error rate over all words, both sides lower-cased, without punctuation, numbers spelled; a false "
    "alarm is a hotword in a result that its reference has not. *Finals* went through ring, denoiser, VAD "
    "and endpoint as in the daemon."
)

Decode = Callable[[Audio], str]


@dataclass
class Tally:
    """Errors and words of one way of decoding."""

    errors: int = 0
    words: int = 0
    alarms: int = 0
    results: list[str] = field(default_factory=list)

    def add(self, reference: str, result: str) -> None:
        said, heard = normalise(reference).split(), normalise(result).split()
        self.errors += edit_distance(said, heard)
        self.words += len(said)
        self.alarms += max(0, found(heard) - found(said))
        self.results.append(result)

    @property
    def wer(self) -> float:
        return 100 * self.errors / max(1, self.words)


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Words to insert, delete or replace."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(diagonal + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def found(words: Sequence[str]) -> int:
    """How many hotwords stand in a text."""
    text = f" {' '.join(words)} "
    return sum(text.count(f" {phrase} ") for phrase in PHRASES)


def run(quick: bool) -> dict[str, Any]:
    """Measure and report. Raises CosydError without the evaluation sets or the model."""
    report = Report("hotwords", "Hotwords", METHOD, quick)
    store = ModelStore(Paths.resolve(PathsConfig()).models)
    ways = _ways(store)
    most = QUICK_CLIPS if quick else CLIPS
    rows = [_row("coffee, clean", _tallies(ways, _clips("coffee-commands", most)))]
    for snr_db in KITCHEN_DB:
        tallies = _tallies(ways, _noisy(_clips("coffee-commands", most), snr_db))
        rows.append(_row(f"coffee, kitchen noise {snr_db} dB", tallies))
        fall = 100 * (1 - tallies["hotwords"].errors / max(1, tallies["greedy"].errors))
        name = f"Errors fewer with hotwords, kitchen noise {snr_db} dB"
        report.add(name, fall, "%", target=25, at_least=True, note="against greedy, the same audio")
    rows.append(_false_alarms(report, ways, most))
    report.table("Word error rate", ("speech", "words", "greedy, %", "beam, %", "hotwords, %"), rows)
    _finals(report, QUICK_CLIPS if quick else PIPELINE_CLIPS)
    return report.as_dict()


def _row(name: str, tallies: dict[str, Tally]) -> tuple[str, ...]:
    words = next(iter(tallies.values())).words
    return (name, str(words), *(f"{tally.wer:.1f}" for tally in tallies.values()))


def _false_alarms(report: Report, ways: dict[str, Decode], most: int) -> tuple[str, ...]:
    clips = list(_clips("librispeech-other", most))
    tallies = _tallies(ways, clips)
    minutes = sum(clip.audio.size for clip in clips) / FRAME.rate_hz / 60
    rate = tallies["hotwords"].alarms / minutes
    report.add(
        "False alarms on LibriSpeech test-other", rate, "a minute", target=0.1, note=f"{minutes:.1f} min"
    )
    worse = tallies["hotwords"].wer - tallies["greedy"].wer
    report.add("Word error rate there, against greedy", worse, "points", target=0.0)
    return _row("LibriSpeech test-other", tallies)


# --- the recogniser alone ----------------------------------------------------------------------------


def _ways(store: ModelStore) -> dict[str, Decode]:
    greedy = load_recognizer(AsrConfig(beam=1), store)
    beam = load_recognizer(AsrConfig(beam=HOTWORD_BEAM), store)
    hotwords = tuple(Hotword(phrase) for phrase in PHRASES)

    def by(recognizer: SegmentRecognizer, hotwords: tuple[Hotword, ...] = ()) -> Decode:
        return lambda audio: recognizer.transcribe([SegmentRequest(audio, hotwords=hotwords)])[0].text

    return {"greedy": by(greedy), "beam": by(beam), "hotwords": by(greedy, hotwords)}


def _clips(name: str, most: int) -> Iterator[Clip]:
    yield from eval_clips(name, most)


def _noisy(clips: Iterable[Clip], snr_db: float) -> Iterator[Clip]:
    kitchen = noise("kitchen")
    for seed, clip in enumerate(clips):
        yield Clip(clip.set, clip.file, clip.text, mix(clip.audio, kitchen, snr_db, seed))


def _tallies(ways: dict[str, Decode], clips: Iterable[Clip]) -> dict[str, Tally]:
    tallies = {name: Tally() for name in ways}
    for clip in clips:
        for name, decode in ways.items():
            tallies[name].add(clip.text, decode(clip.audio))
    return tallies


# --- as the daemon hears it --------------------------------------------------------------------------


def _finals(report: Report, most: int) -> None:
    snr_db = KITCHEN_DB[-1]
    clips = list(_noisy(_clips("coffee-commands", most), snr_db))
    tallies = {
        "without": _through_pipeline(clips, Config()),
        "with": _through_pipeline(clips, Config(asr=AsrConfig(hotwords=PHRASES))),
    }
    fall = 100 * (1 - tallies["with"].errors / max(1, tallies["without"].errors))
    note = f"{tallies['without'].wer:.1f} % of words wrong without, {tallies['with'].wer:.1f} % with"
    name = f"Errors fewer in finals with hotwords, kitchen noise {snr_db} dB"
    report.add(name, fall, "%", target=25, at_least=True, note=note)


def _through_pipeline(clips: Sequence[Clip], config: Config) -> Tally:
    import soundfile

    from cosyd.runtime.offline import transcribe

    heard: dict[str, list[str]] = {clip.file: [] for clip in clips}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{Path(clip.file).stem}.wav" for clip in clips]
        for path, clip in zip(paths, clips, strict=True):
            trail = np.zeros(2 * FRAME.rate_hz, np.float32)
            soundfile.write(path, np.concatenate([clip.audio, trail]), FRAME.rate_hz)
        names = {path: clip.file for path, clip in zip(paths, clips, strict=True)}
        transcribe(paths, config, on_final=lambda path, final: heard[names[path]].append(final.text))
    tally = Tally()
    for clip in clips:
        tally.add(clip.text, " ".join(heard[clip.file]))
    return tally
