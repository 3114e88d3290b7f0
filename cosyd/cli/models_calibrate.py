"""``cosyd models calibrate``: confidences of a model that mean what they say, from recordings with their
text.

A list of recordings is recognised, each word compared with what was said, and the correction that makes right
words likely (``asr.confidence``) written beside the model, where it is found when the model is loaded.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.asr.confidence import NOTHING, Calibration, calibration_error, information
from cosyd.asr.recognizer import Audio, SegmentRequest
from cosyd.asr.recognizers import load_uncalibrated, open_streaming, streaming_folder
from cosyd.bench.judged import Judged, held_out, joined
from cosyd.capture.file import Recording
from cosyd.cli.common import note, print_json, print_line
from cosyd.cli.settings import load_config
from cosyd.config.schema import AsrConfig, SourceConfig
from cosyd.errors import CosydError, UsageError
from cosyd.frontend.resample import resampled
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME
from cosyd.types import Transcript

Recognise = Callable[[Audio], Transcript]

FOLDS = 5  # of the recordings, each judged by what the others teach
# Of six weights that are fitted, each then rests on some fifty words and some of either kind.
FEWEST_WORDS = 300
FEWEST_OF_A_KIND = 20  # right ones, and wrong ones
TOLD_EVERY = 100  # recordings


@dataclass(frozen=True)
class Clip:
    """A recording and what is said in it."""

    file: Path
    text: str


def run(args: Namespace) -> int:
    config = load_config(args, [f"asr.model={args.model}"])
    store = ModelStore(config.paths.models)
    _need_rapidfuzz()
    clips = read_list(args.list)
    folder = store.require(args.model)
    with ExitStack() as opened:
        recognise = _open(config.config.asr, store, opened)
        parts = [_judged(recognise, clip) for clip in _counted(clips)]
    found = _found(parts, len(clips), args.list)
    if found["helps"] and not args.dry_run:
        found["file"] = str(_save(joined(parts).fit(), folder))
    if args.json:
        print_json(found)
    else:
        _tell(found, args.model, dry=args.dry_run)
    return 0


# --- recordings ------------------------------------------------------------------------------------------


def read_list(path: Path) -> list[Clip]:
    """``FILE<tab>TEXT`` a line, or JSON with ``file`` and ``text``; files are looked for beside the list.

    Raises UsageError with the line that is neither, or names a file that is not there.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    clips = [_clip(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if len(clips) < FOLDS:
        raise UsageError(f"{path}: has {len(clips)} recordings; a calibration needs some hundred")
    return clips


def _clip(path: Path, number: int, line: str) -> Clip:
    name, _, text = line.partition("\t")
    if line.lstrip().startswith("{"):
        try:
            entry = json.loads(line)
            name, text = entry["file"], entry["text"]
        except (ValueError, KeyError) as error:
            raise UsageError(f"{path}:{number}: is no JSON with file and text: {error}") from error
    if not (isinstance(name, str) and isinstance(text, str) and name.strip() and text.strip()):
        raise UsageError(f"{path}:{number}: is not FILE<tab>TEXT, and no JSON with file and text")
    file = path.parent / name.strip()
    if not file.is_file():
        raise UsageError(f"{path}:{number}: there is no {file}")
    return Clip(file, text.strip())


def _read(file: Path) -> Audio:
    """The first channel at 16 kHz. Raises AudioError."""
    source = SourceConfig(name="file", type="file", path=str(file), format="f32", channels=1)
    with Recording(source) as recording:
        frames = recording.read(recording.frames)
        audio, rate_hz = np.ascontiguousarray(frames[:, 0]), recording.spec.rate_hz
    if rate_hz == FRAME.rate_hz:
        return audio
    return resampled(audio, rate_hz)[: -(-len(audio) * FRAME.rate_hz // rate_hz)]


def _counted(clips: list[Clip]) -> Iterator[Clip]:
    for i, clip in enumerate(clips, start=1):
        yield clip
        if i % TOLD_EVERY == 0:
            note(f"{i} of {len(clips)} recordings")


# --- words -----------------------------------------------------------------------------------------------


def _open(asr: AsrConfig, store: ModelStore, opened: ExitStack) -> Recognise:
    """The model as for finals, with confidences as its network gives them."""
    folder = streaming_folder(asr, store)
    if folder is None:
        recognizer = load_uncalibrated(asr, store)
        opened.callback(recognizer.close)
        return lambda audio: recognizer.transcribe([SegmentRequest(audio, words=True)])[0]
    streaming = open_streaming(asr, folder, 1)
    opened.callback(streaming.close)
    streaming.streams.model.calibration = NOTHING

    def recognise(audio: Audio) -> Transcript:
        slot = streaming.open()
        streaming.streams.push(slot, audio)
        return streaming.finish(slot)

    return recognise


def _judged(recognise: Recognise, clip: Clip) -> Judged:
    judged = Judged()
    judged.add(recognise(_read(clip.file)), clip.text)
    return judged


def _need_rapidfuzz() -> None:
    try:
        import rapidfuzz  # noqa: F401 - judged uses it, after minutes of recognising
    except ImportError as error:
        raise CosydError(f"comparing texts needs rapidfuzz ({error}); run: pip install rapidfuzz") from error


# --- what came of it -------------------------------------------------------------------------------------


def _found(parts: list[Judged], clips: int, path: Path) -> dict[str, Any]:
    """Raises CosydError when there is too little to learn from."""
    whole = joined(parts)
    count, right = len(whole.right), sum(whole.right)
    if count < FEWEST_WORDS or min(right, count - right) < FEWEST_OF_A_KIND:
        raise CosydError(
            f"{path}: {count} recognised words, {right} of them right: a calibration needs {FEWEST_WORDS}, "
            f"{FEWEST_OF_A_KIND} of them right and {FEWEST_OF_A_KIND} wrong; give it more recordings"
        )
    told, known = held_out(parts, FOLDS)
    own, after = calibration_error(whole.confidences, whole.right), calibration_error(told, known)
    return {
        "recordings": clips,
        "words": count,
        "right": round(right / count, 4),
        "error_before": round(own, 4),
        "error_after": round(after, 4),
        "information_before": round(information(whole.confidences, whole.right), 4),
        "information_after": round(information(told, known), 4),
        "helps": after < own,
        "calibration": {name: round(weight, 4) for name, weight in asdict(whole.fit()).items()},
        "file": None,
    }


def _save(calibration: Calibration, folder: Path) -> Path:
    try:
        return calibration.save(folder)
    except OSError as error:
        raise CosydError(f"{folder}: cannot be written to: {error.strerror}") from error


def _tell(found: dict[str, Any], model: str, *, dry: bool) -> None:
    print_line(
        f"{model}: {found['words']:,} words of {found['recordings']:,} recordings, {found['right']:.1%} right"
    )
    print_line(
        f"calibration error, on recordings that were left out: {found['error_before']:.3f} as it is, "
        f"{found['error_after']:.3f} calibrated"
    )
    if not found["helps"]:
        print_line("its confidences are true enough; nothing was written")
    elif dry:
        print_line("nothing was written")
    else:
        print_line(f"written to {found['file']}; it counts from the model's next start")
