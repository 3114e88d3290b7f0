"""Two people who talk by turns around a microphone array: what ``make demo SCENE=array`` plays."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from cosyd.array.geometry import Geometry
from cosyd.bench.scene import Room, Sound, render
from cosyd.bench.speech import Audio
from cosyd.config.schema import ArrayConfig
from cosyd.frontend.resample import resampled
from cosyd.spec import FRAME

GEOMETRY = "respeaker-4"
PLACES_DEG = {"beckett.wav": 60.0, "two_cities.wav": -100.0}  # by who reads
TURNS = 2
SHORTEST_S, LONGEST_S = 4.0, 7.0  # of a turn; it is cut where it is quietest in between
PAUSE_S = 1.5  # between turns, longer than the silence that ends an utterance


def write(recordings: Path, path: Path) -> str:
    """The scene as a WAV at ``path``; where it takes place, in words."""
    voices = {name: _read(recordings / name) for name in PLACES_DEG}
    talkers, second = [], 1.0
    for _ in range(TURNS):
        for name, azimuth in PLACES_DEG.items():
            cut = _cut(voices[name])
            audio, voices[name] = voices[name][:cut], voices[name][cut:]
            talkers.append(Sound(audio, ((0, azimuth),), 2.0, 8.0, second, name=name))
            second += len(audio) / FRAME.rate_hz + PAUSE_S
    rooms = importlib.util.find_spec("pyroomacoustics") is not None
    room = Room(rt60_s=0.3 if rooms else 0.0)
    geometry = Geometry.of(ArrayConfig(geometry=GEOMETRY))  # type: ignore[arg-type]
    render(geometry, room, talkers, seconds=second, hum_snr_db=25.0, channels=6).write(path)
    places = " and ".join(f"{azimuth:g}°" for azimuth in PLACES_DEG.values())
    where = "a room with an RT60 of 0.3 s" if rooms else "the open air (rooms need pyroomacoustics)"
    return f"two people at {places} around a {GEOMETRY} array in {where}"


def _read(path: Path) -> Audio:
    """Mono at the models' rate."""
    import soundfile

    audio, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    return resampled(np.ascontiguousarray(audio[:, 0]), rate_hz)


def _cut(audio: Audio) -> int:
    """The middle of the quietest third of a second between the shortest and the longest turn, or its end."""
    if len(audio) <= LONGEST_S * FRAME.rate_hz:
        return len(audio)
    first, last = (round(seconds * FRAME.rate_hz) for seconds in (SHORTEST_S, LONGEST_S))
    width = FRAME.rate_hz // 3
    power = np.cumsum(np.square(audio[first:last], dtype=np.float64))
    return first + int(np.argmin(power[width:] - power[:-width])) + width // 2
