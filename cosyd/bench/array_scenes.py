"""What the array benchmark measures with: scenes in simulated rooms, heard by the daemon's front end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosyd.array.geometry import Geometry
from cosyd.bench import scene, speech
from cosyd.bench.speech import Audio, Clip
from cosyd.config.schema import ArrayConfig, FrontendConfig
from cosyd.frontend.factory import make_front_end
from cosyd.frontend.front_end import FrontEnd
from cosyd.models.configured import configured_store
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import Voice

EARLY_S = 0.05  # after the direct sound, that is heard as one with it
LEAD_S = 1.5  # of noise alone before someone speaks, as in any room that one enters
PUSH_S = 0.25
PLACES_DEG = (13.0, 80.0, 147.0, -146.0, -79.0, -12.0)  # where talkers stand, by turns
HEIGHT_DEG = 8.0  # a mouth above a table
NOISES = ("kitchen", "tap", "dishes", "bike")  # from one place


@dataclass(frozen=True)
class Heard:
    """What came out: audio for the recogniser from the scene's beginning on; blocks with their voices."""

    audio: Audio
    samples: NDArray[np.int64]
    prob: NDArray[np.float32]
    voices: tuple[tuple[Voice, ...], ...]


def open_front_end(**options: object) -> FrontEnd:
    """The daemon's, for one stream."""
    config = FrontendConfig(max_streams=1, **options)  # type: ignore[arg-type]
    return make_front_end(config, configured_store())


def hear(front_end: FrontEnd, frames: scene.Channels, array: ArrayConfig) -> Heard:
    """A whole scene through the front end, in pieces as a ring gives them."""
    slot = front_end.open(AudioSpec(FRAME.rate_hz, frames.shape[1], SampleFormat.F32), array=array)
    front_end.restart(slot, 0)
    found: list[tuple[Audio, int, float, tuple[Voice, ...]]] = []
    for block in _blocks(front_end, slot, frames):
        found.append(block)
    front_end.close(slot)
    audio, samples, prob, voices = zip(*found, strict=True)
    return Heard(np.concatenate(audio), np.array(samples), np.array(prob, np.float32), voices)


def _blocks(
    front_end: FrontEnd, slot: int, frames: scene.Channels
) -> Iterator[tuple[Audio, int, float, tuple[Voice, ...]]]:
    step, at = round(PUSH_S * FRAME.rate_hz), 0
    while at < len(frames):
        at += front_end.push(slot, frames[at : at + step], at)
        if at == len(frames):
            front_end.flush(slot)
        while (batch := front_end.step()) is not None:
            yield batch.asr[0], int(batch.samples[0]), float(batch.vad_prob[0]), batch.voices[slot]


def spoken(
    geometry: Geometry, room: scene.Room, clip: Clip, azimuth: float, hum_snr_db: float, seed: int
) -> scene.Scene:
    """One talker, noise from all around."""
    talker = scene.Sound(clip.audio, ((0, azimuth),), 2.0, HEIGHT_DEG, 0.3, text=clip.text)
    return scene.render(geometry, room, [talker], hum=speech.noise("pink"), hum_snr_db=hum_snr_db, seed=seed)


def disturbed(
    geometry: Geometry, room: scene.Room, clip: Clip, noise: Audio, snr_db: float, turn: int
) -> scene.Scene:
    """One talker after ``LEAD_S``, a noise from another place from the beginning on."""
    azimuth = PLACES_DEG[turn % len(PLACES_DEG)]
    distance = (1.5, 2.0, 2.5)[turn % 3]
    other = PLACES_DEG[(turn + 2) % len(PLACES_DEG)] + 20
    talker = scene.Sound(clip.audio, ((0, azimuth),), distance, HEIGHT_DEG, LEAD_S, text=clip.text)
    seconds = LEAD_S + len(clip.audio) / FRAME.rate_hz + 0.5
    length = round(seconds * FRAME.rate_hz)
    start = (turn * 37_001) % len(noise)
    stretch = np.take(noise, np.arange(start, start + length), mode="wrap")
    source = scene.Sound(stretch, ((0, other),), 2.5, 0.0)
    return scene.render(
        geometry,
        room,
        [talker],
        [source],
        seconds=seconds,
        snr_db=snr_db,
        hum_snr_db=35.0,
        early_s=EARLY_S,
        seed=turn,
    )


def clips(each: int) -> list[Clip]:
    """``each`` of every evaluation set, by turns."""
    sets = [list(speech.eval_clips(name, each)) for name in speech.EVAL_SETS]
    return [clip for turn in zip(*sets, strict=True) for clip in turn]


def best(voices: Sequence[Voice]) -> Voice | None:
    """Who speaks most."""
    return max(voices, key=lambda voice: voice.conf, default=None)
