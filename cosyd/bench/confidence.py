"""``cosyd bench confidence``: whether words with confidence 0.8 are right eight times in ten.

The line that corrects confidences is fitted on the training recordings beside the repository, clean and in
the noise of dishes, and judged on the evaluation sets, clean and in the noise of a kitchen.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cosyd.asr.confidence import Calibration, calibration_error, reliability
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.recognizers import load_recognizer, open_streaming
from cosyd.bench.report import Report
from cosyd.bench.speech import DATA, EVAL_SETS, Audio, Clip, eval_clips, mix, noise, read_audio
from cosyd.bench.text import normalise
from cosyd.config.paths import Paths
from cosyd.config.schema import AsrConfig, PathsConfig
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME
from cosyd.types import Word

TRAIN_SETS = ("librispeech-251-speakers", "synthetic", "kathleen")
EXAMPLE = DATA.parent / "models" / "streaming-ctc-tiny"
CLIPS, QUICK_CLIPS = 24, 4  # of each set, clean and noisy
LONGEST_S = 20.0
SNR_DB = 5.0
METHOD = (
    "A recognised word is right if the alignment with the reference that needs the fewest edits says so. "
    "Confidences are those that a model's tokens give (*raw*) and those after Platt's line, fitted on "
    f"{', '.join(TRAIN_SETS)}, clean and with dishes at {SNR_DB:g} dB; judged on "
    f"{', '.join(EVAL_SETS)}, clean and with a kitchen at {SNR_DB:g} dB. The error is the expected "
    "calibration error over ten equally populated bins. The references of two training sets are another "
    "recogniser's, and the streaming example was trained on all three."
)

Recognise = Callable[[Audio], tuple[Word, ...]]


class Judged(NamedTuple):
    confidences: list[float]
    right: list[bool]


def run(quick: bool) -> dict[str, Any]:
    """Measure and report. Raises ModelMissing, or CosydError without recordings."""
    report = Report("confidence", "Confidences", METHOD, quick)
    count = QUICK_CLIPS if quick else CLIPS
    for name, recognise in _models():
        fitted = _judge(
            recognise, (clip for each in TRAIN_SETS for clip in _train_clips(each, count)), "dishes"
        )
        line = Calibration.fit(*fitted)
        found = _judge(recognise, (clip for each in EVAL_SETS for clip in eval_clips(each, count)), "kitchen")
        better = [line(confidence) for confidence in found.confidences]
        raw_error = calibration_error(found.confidences, found.right)
        report.add(f"Calibration error, {name}, raw", raw_error, "", note=f"{len(better)} words")
        report.add(
            f"Calibration error, {name}, calibrated",
            calibration_error(better, found.right),
            "",
            target=0.05,
            note=f"slope {line.slope:.2f}, offset {line.offset:+.2f}, of {len(fitted.right)} words",
        )
        _diagram(report, name, Judged(found.confidences, found.right), better)
    return report.as_dict()


def _models() -> Iterator[tuple[str, Recognise]]:
    segment = load_recognizer(AsrConfig(), ModelStore(Paths.resolve(PathsConfig()).models))
    yield "Moonshine", lambda audio: segment.transcribe([SegmentRequest(audio, words=True)])[0].words
    segment.close()
    for beam, search in ((1, "greedy"), (8, "beam")):
        streaming = open_streaming(AsrConfig(model=str(EXAMPLE), beam=beam), EXAMPLE, 1)

        def stream(audio: Audio, streaming: Any = streaming) -> tuple[Word, ...]:
            slot = streaming.open()
            streaming.streams.push(slot, audio)
            words: tuple[Word, ...] = streaming.finish(slot).words
            return words

        yield f"streaming example, {search}", stream
        streaming.close()


def _train_clips(name: str, count: int) -> Iterator[Clip]:
    index = DATA / "train" / f"{name}.jsonl"
    entries = [json.loads(line) for line in index.read_text().splitlines()]
    chosen = [entries[i] for i in np.linspace(0, len(entries) - 1, count).round().astype(int)]
    with tarfile.open(index.with_suffix(".tar")) as archive:
        members = {Path(member.name).name: member for member in archive.getmembers()}
        for entry in chosen:
            content = archive.extractfile(members[entry["file"]])
            assert content is not None
            yield Clip(name, entry["file"], entry["text"], read_audio(io.BytesIO(content.read())))


def _judge(recognise: Recognise, clips: Iterable[Clip], background: str) -> Judged:
    disturbance = noise(background)
    judged = Judged([], [])
    for seed, clip in enumerate(clips):
        if len(clip.audio) > LONGEST_S * FRAME.rate_hz:
            continue
        for audio in (clip.audio, mix(clip.audio, disturbance, SNR_DB, seed)):
            for confidence, right in judge_words(recognise(audio), clip.text):
                judged.confidences.append(confidence)
                judged.right.append(right)
    return judged


def judge_words(words: Iterable[Word], reference: str) -> list[tuple[float, bool]]:
    """(confidence, whether it is right) of each word that has a confidence and is spoken."""
    from rapidfuzz.distance import Levenshtein

    spoken = [(word.conf, normalise(word.w).split()) for word in words]
    parts = [(part, i) for i, (_, said) in enumerate(spoken) for part in said]
    wrong: set[int] = set()
    for edit in Levenshtein.opcodes([part for part, _ in parts], normalise(reference).split()):
        if edit.tag in ("replace", "delete"):
            wrong |= {i for _, i in parts[edit.src_start : edit.src_end]}
    return [(conf, i not in wrong) for i, (conf, said) in enumerate(spoken) if said and conf is not None]


def _diagram(report: Report, name: str, raw: Judged, better: list[float]) -> None:
    rows = [
        (f"{a.confidence:.3f}", f"{a.right:.3f}", f"{b.confidence:.3f}", f"{b.right:.3f}", f"{b.count}")
        for a, b in zip(reliability(*raw), reliability(better, raw.right), strict=True)
    ]
    head = ("raw", "of these right", "calibrated", "of these right", "words")
    report.table(f"Reliability, {name}", head, rows)
