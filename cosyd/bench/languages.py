"""Whisper in the daemon beside Whisper fed each clip by itself: Mandarin and English, asked for and found."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.asr.doubt import believed
from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.recognizers import load_recognizer
from cosyd.bench import chinese, speech, text
from cosyd.bench.reel import Reel, make_reel, said_and_heard
from cosyd.bench.report import Report
from cosyd.bench.session import play
from cosyd.client import AsrFinal
from cosyd.config.languages import AUTO
from cosyd.config.schema import AsrConfig
from cosyd.models.configured import configured_store
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME

METHOD = """\
The clips of a set with 1.5 s of silence between them as one recording, which the real daemon plays as fast
as it is processed; finals, as a subscriber gets them, are put back to clips by their times (to two clips
together where one final reaches into both). *Direct* is the same recogniser fed each clip by itself, where
the language is told; *faster-whisper* is that library with the same files, 8 bit, as many paths, without
timestamps, fed each clip, if it is installed. Mandarin: character errors; both sides without punctuation,
numbers as they are read (WeTextProcessing), simplified (OpenCC); *bare*: without punctuation only, so that a
number in figures or a traditional character is an error. English: word errors, lower-cased, without
punctuation, numbers spelled out. *Right language*: finals whose `language` is the set's. *Noise*: three
pieces of 3 s of each of six noises, given to the recogniser without the gate that is before it in the daemon;
how many of them become text."""

PIECES, PIECE_S = 3, 3
BEAM = 4
STUCK_S = 600.0  # finals pile up before a recogniser that is slower than the recording is played


@dataclass(frozen=True)
class _Task:
    """A set of clips, a model, the language it is told, the one that is spoken, so many clips of the set."""

    set: str
    model: str
    language: str
    spoken: str
    clips: int

    @property
    def settings(self) -> dict[str, Any]:
        return {"model": self.model, "language": self.language, "beam": BEAM}


MANDARIN, ENGLISH = "aishell", "librispeech-other"
TASKS = (
    _Task(MANDARIN, "whisper-base", "zh", "zh", 50),  # all there are
    _Task(MANDARIN, "whisper-base", AUTO, "zh", 50),
    _Task(ENGLISH, "whisper-base", "en", "en", 40),
    _Task(ENGLISH, "whisper-base", AUTO, "en", 40),
    _Task(ENGLISH, "whisper-tiny-en", "en", "en", 40),
)


def run(quick: bool) -> dict[str, Any]:
    """Measure. ``quick``: a few clips; the whole takes four minutes, many times that on a slow machine."""
    report = Report("languages", "Other languages: Whisper", METHOD, quick)
    store = configured_store()
    for model in {task.model for task in TASKS}:
        store.require(model)  # now, not after twenty minutes
    rows = []
    with tempfile.TemporaryDirectory(prefix="cosyd-bench-") as folder:
        for task in TASKS:
            clips = list(speech.eval_clips(task.set, 4 if quick else task.clips))
            reel = make_reel(Path(folder) / f"{task.set}.wav", clips)
            rows.append(_measure(task, reel, store, report))
            sys.stderr.write(f"  {', '.join(rows[-1])}\n")
    head = (
        "set",
        "model",
        "language",
        "clips",
        "cosyd",
        "direct",
        "faster-whisper",
        "cosyd, bare",
        "right language",
    )
    report.table("Errors, %", head, rows)
    _noises(store, report, 2 if quick else PIECES)
    return report.as_dict()


def _measure(task: _Task, reel: Reel, store: ModelStore, report: Report) -> tuple[str, ...]:
    sys.stderr.write(f"languages: {task.set}, {task.model}, {task.language}\n")
    finals = play(reel.path, realtime=False, asr=task.settings, stuck_s=STUCK_S).finals
    together, ours = (list(texts) for texts in zip(*said_and_heard(reel, finals), strict=True))
    direct = peer = None
    if task.language != AUTO:
        direct = _direct(task, reel, store)
        peer = _faster_whisper(store.path(task.model), task.language, reel)
    errors, unit = (chinese.cer, "CER") if task.spoken == "zh" else (_wer, "WER")
    said = [clip.text for clip in reel.clips]
    report.add(f"{unit}: {task.set}, {task.model}, {task.language}", errors(together, ours), "%")
    right = _share(finals, lambda final: final.language == task.spoken)
    bare = f"{chinese.cer(together, ours, chinese.bare):.1f}" if task.spoken == "zh" else ""
    shown = [f"{errors(together, ours):.1f}"]
    shown += ["–" if texts is None else f"{errors(said, texts):.1f}" for texts in (direct, peer)]
    clips = str(len(reel.clips))
    return (task.set, task.model, task.language, clips, *shown, bare, f"{100 * right:.0f} %")


def _direct(task: _Task, reel: Reel, store: ModelStore) -> list[str]:
    recognizer = load_recognizer(AsrConfig(**task.settings), store)
    texts = [recognizer.transcribe([SegmentRequest(clip.audio)])[0].text for clip in reel.clips]
    recognizer.close()
    return texts


def _wer(references: Sequence[str], texts: Sequence[str]) -> float:
    import jiwer

    return 100 * float(jiwer.wer([text.normalise(t) for t in references], [text.normalise(t) for t in texts]))


def _share(finals: Sequence[AsrFinal], holds: Callable[[AsrFinal], bool]) -> float:
    return sum(map(holds, finals)) / max(1, len(finals))


def _faster_whisper(folder: Path, language: str, reel: Reel) -> list[str] | None:
    """What that library makes of each clip; None where it is not installed."""
    try:
        from faster_whisper import WhisperModel
    except ImportError:
        return None
    model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)
    return [
        "".join(
            segment.text
            for segment in model.transcribe(
                clip.audio,
                language=None if language == AUTO else language,
                beam_size=BEAM,
                without_timestamps=True,
                condition_on_previous_text=False,
            )[0]
        )
        for clip in reel.clips
    ]


def _noises(store: ModelStore, report: Report, pieces: int) -> None:
    recognizer = load_recognizer(AsrConfig(model="whisper-base"), store)
    rows = []
    for name in speech.NOISES:
        texts = [_said(recognizer, piece) for piece in _pieces(speech.noise(name), pieces)]
        invented = [said for said in texts if said]
        rows.append((name, str(len(texts)), str(len(invented)), "; ".join(invented)[:120]))
    recognizer.close()
    report.add("noise that becomes text, without a gate", sum(int(row[2]) for row in rows), "pieces")
    report.table("Noise", ("noise", "pieces", "text", "what"), rows)


def _said(recognizer: SegmentRecognizer, audio: speech.Audio) -> str:
    """What would be published: results in doubt are not."""
    transcript = believed(recognizer.transcribe([SegmentRequest(audio)])[0], audio.size // FRAME.block)
    return transcript.text


def _pieces(noise: speech.Audio, count: int) -> list[speech.Audio]:
    size = PIECE_S * FRAME.rate_hz
    starts = np.linspace(0, len(noise) - size, count).astype(int)
    return [noise[start : start + size] for start in starts]
