"""How well the whole daemon understands, beside its model fed each clip directly: clean and in noise."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.recognizers import load_recognizer
from cosyd.bench import speech
from cosyd.bench.reel import Reel, make_reel, said_and_heard
from cosyd.bench.report import Report
from cosyd.bench.session import play
from cosyd.bench.speech import Audio, Clip
from cosyd.bench.text import normalise
from cosyd.config.schema import AsrConfig
from cosyd.models.configured import configured_store

METHOD = """\
The clips of a set with 1.5 s of silence between them as one recording, which the real daemon plays as fast
as it is processed; finals, as a subscriber gets them, are put back to clips by their times, those that reach
into two to both. *Direct* is the same model fed each clip by itself, greedily as its own library does,
without VAD, endpoint, front end and daemon; *direct, beam*: with the beam of our finals. Noise is a kitchen,
5 dB below the active speech. Both sides are lower-cased, without punctuation, numbers spelled out. Targets:
above direct by 1 point at most; in noise not above it. The texts of coffee-commands were accepted where two
recognisers agreed on whole clips, one of them this model: clips that it gets wrong when it is fed them are
not there, clips that any other way of hearing gets wrong are. kathleen was read from a script, by one
speaker; settings were chosen on such speech, so that it has no target."""

SNR_DB = 5
NOISE = "kitchen"
SCRIPTED, SCRIPTED_CLIPS = "kathleen", 150
CLEAN_POINTS = 1.0  # that clips in one recording may be worse than clips by themselves

Spoil = Callable[[Audio, int], Audio]


def run(quick: bool) -> dict[str, Any]:
    """Measure. ``quick``: a few clips; the whole takes some ten minutes."""
    report = Report("wer", "Word errors of the whole daemon", METHOD, quick)
    noise = speech.noise(NOISE)
    conditions: dict[str, Spoil | None] = {
        "clean": None,
        f"{NOISE} {SNR_DB} dB": lambda stretch, number: speech.mix(stretch, noise, SNR_DB, number),
    }
    store = configured_store()
    greedy, beam = load_recognizer(AsrConfig(beam=1), store), load_recognizer(AsrConfig(), store)
    rows = []
    with tempfile.TemporaryDirectory(prefix="cosyd-bench-") as folder:
        for name in (*speech.EVAL_SETS, SCRIPTED):
            clips = _clips(name, quick)
            for condition, spoil in conditions.items():
                sys.stderr.write(f"wer: {name}, {condition}\n")
                reel = make_reel(Path(folder) / "reel.wav", clips, spoil)
                ours = wer(said_and_heard(reel, play(reel.path, realtime=False).finals))
                direct, best = wer(fed(reel, greedy)), wer(fed(reel, beam))
                report.add(
                    f"WER above direct: {name}, {condition}",
                    ours - direct,
                    "points",
                    target=None if name == SCRIPTED else 0.0 if spoil else CLEAN_POINTS,
                    note=f"{ours:.2f} % against {direct:.2f} %",
                )
                rows.append((name, condition, str(len(clips)), *(f"{x:.2f}" for x in (ours, direct, best))))
    head = ("set", "condition", "clips", "cosyd, WER %", "direct, WER %", "direct, beam, WER %")
    report.table("Word error rate", head, rows)
    return report.as_dict()


def _clips(name: str, quick: bool) -> list[Clip]:
    if name == SCRIPTED:
        return list(speech.train_clips(name, 4 if quick else SCRIPTED_CLIPS))
    return list(speech.eval_clips(name, 4 if quick else None))


def fed(reel: Reel, recognizer: SegmentRecognizer) -> list[tuple[str, str]]:
    """The text of each clip and what the recogniser makes of it by itself."""
    return [(clip.text, recognizer.transcribe([SegmentRequest(clip.audio)])[0].text) for clip in reel.clips]


def wer(texts: Sequence[tuple[str, str]]) -> float:
    """Word error rate in percent over pairs of what was said and what was heard."""
    import jiwer

    said, heard = ([normalise(text) for text in each] for each in zip(*texts, strict=True))
    return 100 * float(jiwer.wer(said, heard))
