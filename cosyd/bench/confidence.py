"""``cosyd bench confidence``: whether words with confidence 0.8 are right eight times in ten.

What corrects confidences is fitted on the training recordings beside the repository, clean and in the noise
of dishes, and judged on the evaluation sets, clean and in the noise of a kitchen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from cosyd.asr.calibrated import calibration_of
from cosyd.asr.confidence import Calibration, calibration_error, information, reliability
from cosyd.asr.recognizers import open_streaming
from cosyd.bench.confidence_fit import (
    SNR_DB,
    TRAIN_SETS,
    Recognise,
    by_segment,
    judge,
    open_raw,
    train_words,
)
from cosyd.bench.judged import Judged
from cosyd.bench.reliability_chart import Panel, reliability_chart
from cosyd.bench.report import Report
from cosyd.bench.speech import DATA, EVAL_SETS, Audio, eval_clips
from cosyd.config.schema import AsrConfig
from cosyd.models.configured import configured_store
from cosyd.types import Transcript

EXAMPLE = DATA.parent / "models" / "streaming-ctc-tiny"
CLIPS, QUICK_CLIPS = 36, 4  # of each set
STREAMING_SHARE, QUICK_SHARE = 0.5, 0.05  # of the training clips: their only use is a line for this page
TARGET = 0.05
NOISE = "kitchen"
METHOD = (
    "A recognised word is right if the alignment with the reference that needs the fewest edits says so. "
    "*Own* confidences are those that a model's tokens give, *told* those after the correction: for "
    "Moonshine the one that is shipped (`cosyd/asr/calibrations`, made by `python -m "
    "cosyd.bench.confidence_fit`), for the streaming example one fitted in this run, both on "
    f"{', '.join(TRAIN_SETS)}, clean and with dishes at {SNR_DB:g} dB; judged on "
    f"{', '.join(EVAL_SETS)}, clean and with a kitchen at {SNR_DB:g} dB. The error is the expected "
    "calibration error over ten equally populated bins; *information* the normalised cross entropy: 0 for "
    "telling the share of right words and no more, 1 for telling right from wrong. "
    "The references of two training sets are another recogniser's, and the streaming example was trained on "
    "all three, so that it is surer there than of other speech."
)


class Found(NamedTuple):
    """``conditions``: the same words by condition. ``whence``: where the calibration is from."""

    name: str
    conditions: dict[str, Judged]
    calibration: Calibration
    whence: str


def run(quick: bool) -> dict[str, Any]:
    """Measure and report. Raises ModelMissing, or CosydError without recordings."""
    report = Report("confidence", "Confidences", METHOD, quick)
    panels: list[Panel] = []
    for found in chain([_moonshine(quick)], _streaming(quick)):
        whole = Judged()
        for condition, judged in found.conditions.items():
            _tell(report, f"{found.name}, {condition}", judged, found)
            whole.extend(judged)
        panels.append(_tell(report, found.name, whole, found, target=TARGET))
    report.chart("reliability", "Share of right words over their confidence", reliability_chart(panels))
    return report.as_dict()


def _tell(report: Report, name: str, judged: Judged, found: Found, target: float | None = None) -> Panel:
    told = judged.told(found.calibration)
    errors = [calibration_error(each, judged.right) for each in (judged.confidences, told)]
    worth = [information(each, judged.right) for each in (judged.confidences, told)]
    right = sum(judged.right) / max(1, len(judged.right))
    note = f"{len(told)} words, {right:.0%} right; information {worth[0]:.2f}, told {worth[1]:.2f}"
    report.add(f"Calibration error, {name}, own", errors[0], "", note=note)
    report.add(f"Calibration error, {name}, told", errors[1], "", target=target, note=found.whence)
    raw, better = reliability(judged.confidences, judged.right), reliability(told, judged.right)
    if target is not None:
        rows = [
            (f"{a.confidence:.3f}", f"{a.right:.3f}", f"{b.confidence:.3f}", f"{b.right:.3f}", f"{b.count}")
            for a, b in zip(raw, better, strict=True)
        ]
        head = ("own", "of these right", "told", "of these right", "words")
        report.table(f"Reliability, {name}", head, rows)
    return Panel(name, raw, better, *errors)


def _eval_words(recognise: Recognise, quick: bool) -> dict[str, Judged]:
    count = QUICK_CLIPS if quick else CLIPS
    clips = [clip for name in EVAL_SETS for clip in eval_clips(name, count)]
    return {
        "clean": judge(recognise, clips, None),
        f"{NOISE} {SNR_DB:g} dB": judge(recognise, clips, NOISE),
    }


def _moonshine(quick: bool) -> Found:
    sys.stderr.write("confidence: Moonshine\n")
    name = AsrConfig().model
    calibration = calibration_of(configured_store().require(name), name)
    return Found("Moonshine", _eval_words(by_segment(open_raw()), quick), calibration, "as shipped")


def _streaming(quick: bool) -> Iterator[Found]:
    for beam, search in ((1, "greedy"), (8, "beam")):
        sys.stderr.write(f"confidence: streaming example, {search}\n")
        streaming = open_streaming(AsrConfig(model=str(EXAMPLE), beam=beam), EXAMPLE, 1)

        def stream(audio: Audio, streaming: Any = streaming) -> Transcript:
            slot = streaming.open()
            streaming.streams.push(slot, audio)
            transcript: Transcript = streaming.finish(slot)
            return transcript

        fitted = train_words(stream, QUICK_SHARE if quick else STREAMING_SHARE)
        found = _eval_words(stream, quick)
        streaming.close()
        yield Found(f"streaming example, {search}", found, fitted.fit(), f"of {len(fitted.right)} words")
