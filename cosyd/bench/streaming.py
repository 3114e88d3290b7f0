"""``cosyd bench streaming``: what streaming models cost beside sherpa-onnx on the same folder, under load,
and over hours.

The models that both run have random weights and the size, tensors and arithmetic of a streaming zipformer2
(see ``streaming_model``); what they say means nothing, and that both say the same is checked.
``COSYD_BENCH_MODEL`` names the folder of a real one, which then is measured instead.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.bench import speech
from cosyd.bench.parts import Parts, measure
from cosyd.bench.report import Report, number
from cosyd.bench.streaming_cost import SECONDS, STREAMS, measure_costs
from cosyd.bench.streaming_endurance import SOURCES, Endurance, Level, slope
from cosyd.bench.streaming_load import LOADS, measure_load
from cosyd.errors import CosydError
from cosyd.spec import FRAME

Audio = NDArray[np.float32]

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
    "paths; rounds *differ* where any token does. *int8*: products alone in 8 bits, as icefall exports them; "
    "how a product is rounded depends on all of its batch, so that sherpa-onnx itself says other tokens "
    "together than in turn, and the last bit of a convolution is enough: tokens are counted, and the model "
    "is one that makes little of small differences, as trained ones do. Load: streams paced in real time "
    "through the daemon's own queue, begun within one chunk; "
    "*final* is from the last sample to the final text, *lag* from a chunk's last sample to the partial "
    "with it. Endurance: 8 sources at full speed, an utterance every 6 s, hotwords that are others in "
    "every second one, one source that never pauses, others that leave in the middle of a word and new "
    "ones that come; what has grown is told by the hour of audio."
)


def run(quick: bool, hours: float | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    """Measure and report. ``hours``: of audio in the endurance run. ``only``: these parts; of the others the
    kept report's results stay. None named: all. Raises CosydError without speech, UsageError."""
    report = Report("streaming", "Streaming models", METHOD, quick)
    samples = int(SECONDS * FRAME.rate_hz)
    clips = [clip.audio[:samples] for clip in speech.eval_clips("librispeech-other", 200)]
    clips = [clip for clip in clips if len(clip) == samples][:STREAMS]
    hours = hours or (0.05 if quick else HOURS)
    parts: Parts = {"cost": lambda report: measure_costs(report, clips, quick)}
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
