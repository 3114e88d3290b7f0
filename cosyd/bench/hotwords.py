"""``cosyd bench hotwords``: what favouring phrases does to commands, and what it does to other speech.

The evaluation sets were not used for tuning. Each piece of audio is heard by three recognisers that differ in
one thing at a time: greedy, the beam, the same beam with hotwords.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.asr.hotwords import Hotword
from cosyd.asr.moonshine import HOTWORD_BEAM
from cosyd.asr.moonshine_hotwords import DEFAULT_SCORE
from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.recognizers import load_recognizer
from cosyd.bench.hotwords_tally import Tally, fall, fall_range
from cosyd.bench.report import Report, number
from cosyd.bench.speech import Audio, Clip, eval_clips, mix, noise
from cosyd.config.schema import AsrConfig, Config
from cosyd.models.configured import configured_store
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
TARGET_DB = 5
CLIPS, QUICK_CLIPS = 110, 6  # of each set; coffee-commands has 110, LibriSpeech test-other 60
PIPELINE_CLIPS = 110
DRAWS = 3  # of noise for other speech: false alarms are rare, and 7 minutes tell little about one in ten
FALL, ALARMS = 25, 0.1
METHOD = (
    f"Drinks, roasts and sizes of coffee-commands ({len(PHRASES)} phrases, score {DEFAULT_SCORE:g}) as "
    f"hotwords. *Beam* and *hotwords* are the same search with {HOTWORD_BEAM} paths, without and with "
    "them, so what is between the two is the hotwords' alone; *greedy* follows one path. "
    "Word error rate over all words, both sides lower-cased, without punctuation, numbers spelled; the "
    "range is that of 90 % of 2,000 draws of as many clips. A false alarm is a hotword in a result that its "
    "reference has not; of phrases within phrases the longest counts; LibriSpeech in noise is heard in "
    f"{DRAWS} pieces of it. *Finals* went through ring, denoiser, "
    "VAD and endpoint as in the daemon. The transcripts of coffee-commands are those that two recognisers "
    "agreed on, one of them this model, so that without noise there is nothing to win."
)

Decode = Callable[[Audio], str]


def run(quick: bool) -> dict[str, Any]:
    """Measure and report. Raises CosydError without the evaluation sets or the model."""
    report = Report("hotwords", "Hotwords", METHOD, quick)
    ways = _ways(configured_store())
    most = QUICK_CLIPS if quick else CLIPS
    rows = [_row("coffee, clean", _tallies(ways, eval_clips("coffee-commands", most)))]
    for snr_db in KITCHEN_DB:
        tallies = _tallies(ways, _noisy("coffee-commands", most, snr_db))
        _tell_fall(report, f"kitchen noise {snr_db} dB", tallies["beam"], tallies["hotwords"], snr_db)
        rows.append(_row(f"coffee, kitchen noise {snr_db} dB", tallies))
    rows += _other_speech(report, ways, most)
    head = ("speech", "words", "greedy, %", "beam, %", "hotwords, %", "said", "found by beam")
    report.table("Word error rate", (*head, "found with hotwords", "invented"), rows)
    _finals(report, QUICK_CLIPS if quick else PIPELINE_CLIPS)
    return report.as_dict()


def _tell_fall(report: Report, speech: str, without: Tally, by: Tally, snr_db: int) -> None:
    low, high = fall_range(without, by)
    target = {"target": FALL, "at_least": True} if snr_db == TARGET_DB else {}
    note = f"{without.wer:.1f} % to {by.wer:.1f} %, same beam; range {low:.0f} to {high:.0f} %"
    report.add(f"Errors fewer with hotwords, {speech}", fall(without, by), "%", note=note, **target)


def _row(name: str, tallies: dict[str, Tally]) -> tuple[str, ...]:
    beam, hotwords = tallies["beam"], tallies["hotwords"]
    rates = (f"{tally.wer:.1f}" for tally in tallies.values())
    counts = (hotwords.said, beam.found, hotwords.found, hotwords.alarms)
    return (name, str(hotwords.words), *rates, *map(str, counts))


def _other_speech(report: Report, ways: dict[str, Decode], most: int) -> Iterator[tuple[str, ...]]:
    """Speech in which the phrases are hardly ever said."""
    name = "LibriSpeech test-other"
    for condition, clips in (
        ("clean", list(eval_clips("librispeech-other", most))),
        (f"kitchen noise {TARGET_DB} dB", list(_noisy("librispeech-other", most, TARGET_DB, DRAWS))),
    ):
        tallies = _tallies(ways, clips)
        minutes = sum(clip.audio.size for clip in clips) / FRAME.rate_hz / 60
        by, without = tallies["hotwords"], tallies["beam"]
        note = f"{by.alarms} in {minutes:.1f} min; {without.alarms} without hotwords"
        report.add(
            f"False alarms, {name}, {condition}", by.alarms / minutes, "a minute", target=ALARMS, note=note
        )
        report.add(
            f"Word error rate, {name}, {condition}: with hotwords above without",
            by.wer - without.wer,
            "points",
            note=f"{number(without.wer)} % to {number(by.wer)} %",
        )
        yield _row(f"{name}, {condition}", tallies)


# --- the recogniser alone ----------------------------------------------------------------------------


def _ways(store: ModelStore) -> dict[str, Decode]:
    greedy = load_recognizer(AsrConfig(beam=1), store)
    beam = load_recognizer(AsrConfig(beam=HOTWORD_BEAM), store)
    hotwords = tuple(Hotword(phrase) for phrase in PHRASES)

    def by(recognizer: SegmentRecognizer, hotwords: tuple[Hotword, ...] = ()) -> Decode:
        return lambda audio: recognizer.transcribe([SegmentRequest(audio, hotwords=hotwords)])[0].text

    return {"greedy": by(greedy), "beam": by(beam), "hotwords": by(beam, hotwords)}


def _noisy(name: str, most: int, snr_db: float, draws: int = 1) -> Iterator[Clip]:
    """Each clip in so many pieces of the noise."""
    kitchen = noise("kitchen")
    clips = list(eval_clips(name, most))
    for seed, clip in enumerate(clips * draws):
        yield Clip(clip.set, clip.file, clip.text, mix(clip.audio, kitchen, snr_db, seed))


def _tallies(ways: dict[str, Decode], clips: Iterable[Clip]) -> dict[str, Tally]:
    tallies = {name: Tally(PHRASES) for name in ways}
    for clip in clips:
        for name, decode in ways.items():
            tallies[name].add(clip.text, decode(clip.audio))
    return tallies


# --- as the daemon hears it --------------------------------------------------------------------------


def _finals(report: Report, most: int) -> None:
    sys.stderr.write("hotwords: finals through the pipeline\n")
    clips = list(_noisy("coffee-commands", most, TARGET_DB))
    without = _through_pipeline(clips, Config())
    by = _through_pipeline(clips, Config(asr=AsrConfig(hotwords=PHRASES)))
    low, high = fall_range(without, by)
    note = f"{without.wer:.1f} % to {by.wer:.1f} %; range {low:.0f} to {high:.0f} %; {len(clips)} clips"
    name = f"Errors fewer in finals with hotwords, kitchen noise {TARGET_DB} dB"
    report.add(name, fall(without, by), "%", target=FALL, at_least=True, note=note)


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
    tally = Tally(PHRASES)
    for clip in clips:
        tally.add(clip.text, " ".join(heard[clip.file]))
    return tally
