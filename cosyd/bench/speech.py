"""Recordings to measure with: the evaluation sets beside the repository, and speech mixed with noise."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import CosydError
from cosyd.spec import FRAME

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
EVAL_SETS = ("librispeech-other", "coffee-commands")
NOISES = {
    "kitchen": "kitchen.flac",
    "tap": "running_tap.flac",
    "dishes": "doing_the_dishes.flac",
    "bike": "exercise_bike.flac",
    "pink": "pink_noise.flac",
    "white": "white_noise.flac",
}
_ACTIVE_DB = 30.0  # frames that much below the loudest are pauses, not speech
_PEAK = 0.99  # loudest sample of a mixture; louder ones are scaled down, as a device's gain would be

Audio = NDArray[np.float32]


@dataclass(frozen=True)
class Clip:
    """One recording, float32 mono in ±1 at 16 kHz, and what is said in it."""

    set: str
    file: str
    text: str
    audio: Audio


def read_audio(source: Path | io.BytesIO) -> Audio:
    """A mono recording at 16 kHz. Raises CosydError for another rate."""
    import soundfile

    audio, rate = soundfile.read(source, dtype="float32", always_2d=True)
    if rate != FRAME.rate_hz:
        raise CosydError(f"{source}: {rate} Hz where {FRAME.rate_hz} is expected")
    return np.ascontiguousarray(audio[:, 0])


def eval_clips(name: str, most: int | None = None) -> Iterator[Clip]:
    """The clips of an evaluation set; ``most``: so many, spread evenly over it."""
    return _clips("eval", name, most, "evaluation")


def train_clips(name: str, most: int | None = None) -> Iterator[Clip]:
    """The clips of a training set; ``most``: so many, spread evenly over it."""
    return _clips("train", name, most, "training")


def _clips(folder: str, name: str, most: int | None, what: str) -> Iterator[Clip]:
    index = DATA / folder / f"{name}.jsonl"
    if not index.is_file():
        raise CosydError(f"no {index}: the {what} recordings are not beside the repository")
    entries = [json.loads(line) for line in index.read_text().splitlines()]
    if most is not None and most < len(entries):
        entries = [entries[i] for i in np.linspace(0, len(entries) - 1, most).round().astype(int)]
    with tarfile.open(index.with_suffix(".tar")) as archive:
        members = {Path(member.name).name: member for member in archive.getmembers()}
        for entry in entries:
            content = archive.extractfile(members[Path(entry["file"]).name])
            assert content is not None
            audio = read_audio(io.BytesIO(content.read()))
            yield Clip(name, entry["file"], entry["text"], audio)


def noise(name: str) -> Audio:
    """A whole noise recording."""
    return read_audio(DATA / "noise" / NOISES[name])


def speech_power(audio: Audio) -> float:
    """Mean power of the frames in which someone speaks: those within 30 dB of the loudest."""
    frames = audio[: len(audio) // FRAME.block * FRAME.block].reshape(-1, FRAME.block)
    power = np.square(frames, dtype=np.float64).mean(axis=1)
    return float(power[power >= power.max() * 10 ** (-_ACTIVE_DB / 10)].mean())


def mix(speech: Audio, noise: Audio, snr_db: float, seed: int) -> Audio:
    """Speech plus a stretch of noise from a random place, at an SNR against the speech's active level."""
    start = int(np.random.default_rng(seed).integers(len(noise)))
    stretch = np.take(noise, np.arange(start, start + len(speech)), mode="wrap")
    gain = np.sqrt(speech_power(speech) / np.mean(np.square(stretch, dtype=np.float64)) / 10 ** (snr_db / 10))
    mixture = speech + np.float32(gain) * stretch
    return (mixture * np.float32(min(1.0, _PEAK / np.abs(mixture).max()))).astype(np.float32)
