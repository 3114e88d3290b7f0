"""Clips strung together into one long recording with known boundaries, and texts put back to their clips."""

from __future__ import annotations

import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosyd.bench.speech import Audio, Clip
from cosyd.client import AsrFinal
from cosyd.spec import FRAME

PAUSE_S = 1.5  # more than the longest patience of the endpoint, 1.2 s after very short speech
REACH_S = 0.2  # into a clip, from which on a final has to do with it


@dataclass(frozen=True)
class Placed:
    """A clip's place in the reel, in seconds, and its audio as it is heard there (with the noise)."""

    start: float
    end: float
    text: str
    audio: Audio


@dataclass(frozen=True)
class Reel:
    """A recording on disk and what is in it."""

    path: Path
    clips: tuple[Placed, ...]
    seconds: float


def make_reel(
    path: Path,
    clips: Sequence[Clip],
    spoil: Callable[[Audio, int], Audio] | None = None,
    pause_s: float = PAUSE_S,
) -> Reel:
    """Write ``clips`` with pauses between them. ``spoil(stretch, number)`` may add noise to each stretch,
    which is the clip with half a pause on either side."""
    half = np.zeros(round(pause_s / 2 * FRAME.rate_hz), np.float32)
    position = 0
    placed: list[Placed] = []
    stretches: list[Audio] = []
    for number, clip in enumerate(clips):
        stretch = np.concatenate([half, clip.audio, half])
        stretch = spoil(stretch, number) if spoil else stretch
        first, last = position + len(half), position + len(half) + len(clip.audio)
        heard = stretch[len(half) : len(half) + len(clip.audio)]
        placed.append(Placed(first / FRAME.rate_hz, last / FRAME.rate_hz, clip.text, heard))
        stretches.append(stretch)
        position += len(stretch)
    write_wav(path, np.concatenate(stretches))
    return Reel(path, tuple(placed), position / FRAME.rate_hz)


def write_wav(path: Path, audio: Audio) -> None:
    """16-bit mono at the models' rate."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(FRAME.rate_hz)
        file.writeframes((np.clip(audio, -1, 1) * 32767).astype("<i2").tobytes())


def texts_by_clip(reel: Reel, finals: Sequence[AsrFinal]) -> list[str]:
    """For each clip what was recognised in it: each final belongs to the clip that it overlaps most, or,
    if it overlaps none, to the nearest, where it counts as inserted words."""
    texts: list[list[str]] = [[] for _ in reel.clips]
    for final in finals:
        overlaps = [min(final.end, clip.end) - max(final.start, clip.start) for clip in reel.clips]
        texts[int(np.argmax(overlaps))].append(final.text)
    return [" ".join(parts) for parts in texts]


def said_and_heard(reel: Reel, finals: Sequence[AsrFinal]) -> list[tuple[str, str]]:
    """The text and what was recognised, of each clip; of neighbours that one final reaches into, of all of
    them together: where noise fills the pause between them they are one utterance, and no word is wrong."""
    texts = texts_by_clip(reel, finals)
    groups: list[tuple[list[str], list[str]]] = []
    for number, (clip, text) in enumerate(zip(reel.clips, texts, strict=True)):
        before = reel.clips[number - 1].end - REACH_S
        if not number or not any(f.start < before and f.end > clip.start + REACH_S for f in finals):
            groups.append(([], []))
        groups[-1][0].append(clip.text)
        groups[-1][1].append(text)
    return [(" ".join(said), " ".join(filter(None, heard))) for said, heard in groups]
