"""Scenes for microphone arrays: talkers who stand or walk, noises and an echo in a room, with the truth.

Rooms are simulated with the image source method (Allen & Berkley 1979) of pyroomacoustics. A voice that moves
is cut into short overlapping pieces, each heard from where the talker then is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.array.geometry import Geometry, unit
from cosyd.bench.scene_echo import Loudspeaker
from cosyd.bench.speech import Audio, speech_power
from cosyd.spec import FRAME

PIECE_S = 0.1  # of a moving voice; at 1 m/s and 2 m away 3 degrees
HUM_WAVES = 32  # directions from which a diffuse noise comes
_NOBODY = 1e-2  # power that takes the place of the talkers' where there are none: -20 dBFS
_PEAK = 0.5  # loudest sample of a scene: room for a louder one, as a device has

Channels = NDArray[np.float32]  # [n, channels]


@dataclass(frozen=True)
class Room:
    """Metres; ``rt60_s`` 0 is the open air. ``array``: where the array's centre is."""

    size: tuple[float, float, float] = (6.0, 5.0, 2.8)
    rt60_s: float = 0.3
    array: tuple[float, float, float] = (2.7, 2.2, 1.1)


@dataclass(frozen=True)
class Sound:
    """Something heard from a place. ``path``: (seconds, azimuth) corners of its way, in between evenly."""

    audio: Audio
    path: tuple[tuple[float, float], ...]
    distance_m: float = 2.0
    elevation_deg: float = 0.0
    start_s: float = 0.0
    level_db: float = 0.0  # of its frames with speech, at the array's centre
    text: str = ""
    name: str = ""

    def azimuth(self, second: float) -> float:
        times, azimuths = zip(*self.path, strict=True)
        return float(np.interp(second, times, azimuths))


@dataclass(frozen=True)
class Truth:
    """Where a talker was: seconds of the scene and azimuths at ``step_s`` from its start on."""

    name: str
    text: str
    start_s: float
    end_s: float
    elevation_deg: float
    azimuths: tuple[float, ...]
    step_s: float = PIECE_S


@dataclass(frozen=True)
class Scene:
    """``frames`` float32 [n, channels] as the device would give them, and the truth.

    ``target``, ``echo``: what the microphones hear of the talkers and of the loudspeaker, alone. ``early``:
    of the talkers, what comes straight or soon after, where that was asked for. ``played``: what the
    loudspeaker gets; the device's reference channels, where it has some, carry it.
    """

    frames: Channels
    truth: tuple[Truth, ...]
    target: Channels = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    echo: Channels = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    played: Audio = field(default_factory=lambda: np.zeros(0, np.float32))
    loudspeaker: Loudspeaker | None = None
    early: Channels = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def write(self, path: Path) -> None:
        """A 16-bit WAV, and beside it what is true in JSON; what is played also as NAME-played.wav."""
        import soundfile

        soundfile.write(path, self.frames, FRAME.rate_hz, subtype="PCM_16")
        truth: dict[str, Any] = {"talkers": [asdict(talker) for talker in self.truth]}
        if self.loudspeaker is not None:
            truth["loudspeaker"] = self.loudspeaker.truth()
            played = path.with_name(f"{path.stem}-played.wav")
            soundfile.write(played, self.played, FRAME.rate_hz, subtype="PCM_16")
        path.with_suffix(".json").write_text(json.dumps(truth, indent=1) + "\n")


def render(
    geometry: Geometry,
    room: Room,
    talkers: Sequence[Sound],
    noises: Sequence[Sound] = (),
    *,
    seconds: float | None = None,
    snr_db: float | None = None,
    hum: Audio | None = None,
    hum_snr_db: float = 30.0,
    loudspeaker: Loudspeaker | None = None,
    channels: int | None = None,
    early_s: float | None = None,
    seed: int = 0,
) -> Scene:
    """Make the scene.

    ``snr_db``: talkers to ``noises`` as the first microphone hears them (None: levels as they are). ``hum``:
    noise that comes from everywhere, ``hum_snr_db`` below the talkers; white noise where there is none.
    Where nobody talks, say for how many ``seconds``; levels are then against -20 dBFS. ``early_s``: give also
    what comes of the talkers until so long after the direct sound, as a listener hears it as one with that.
    """
    rng = np.random.default_rng(seed)
    length = round((seconds or _end(talkers)) * FRAME.rate_hz)
    target = _all_heard(geometry, room, talkers, length)
    level = _loudness(target) or _NOBODY
    early = _silence(geometry, 0)
    if early_s is not None:
        early = _all_heard(geometry, room, talkers, length, early_s)
    noise = _all_heard(geometry, room, noises, length)
    if snr_db is not None and noises:
        noise *= _gain(float(np.square(noise).mean()), _loudness(target), snr_db)
    everywhere = _diffuse(geometry, hum, length, rng)
    everywhere *= _gain(float(np.square(everywhere).mean()), level, hum_snr_db)
    echo, played = _echo(geometry, room, loudspeaker, length, level)
    total = target + noise + everywhere + echo
    scale = np.float32(_PEAK / max(float(np.abs(total).max()), 1e-9))
    truth = tuple(_truth(sound) for sound in talkers)
    frames = _on_device(geometry, total * scale, channels)
    if loudspeaker is not None:
        frames[:, list(geometry.references)] = played[:, None]
    return Scene(frames, truth, target * scale, echo * scale, played, loudspeaker, early * scale)


def _end(talkers: Sequence[Sound]) -> float:
    return max((sound.start_s + len(sound.audio) / FRAME.rate_hz for sound in talkers), default=0.0) + 0.5


def _truth(sound: Sound) -> Truth:
    seconds = len(sound.audio) / FRAME.rate_hz
    times = sound.start_s + np.arange(0, seconds, PIECE_S)
    azimuths = tuple(round(sound.azimuth(float(t)), 2) for t in times)
    return Truth(
        sound.name, sound.text, sound.start_s, sound.start_s + seconds, sound.elevation_deg, azimuths
    )


def _silence(geometry: Geometry, length: int) -> Channels:
    return np.zeros((length, geometry.microphones), np.float32)


def _loudness(target: Channels) -> float:
    return speech_power(target[:, 0]) if len(target) and np.abs(target).max() > 0 else 0.0


def _echo(
    geometry: Geometry, room: Room, loudspeaker: Loudspeaker | None, length: int, level: float
) -> tuple[Channels, Audio]:
    """What the microphones hear of the loudspeaker, and what that gets."""
    if loudspeaker is None:
        return _silence(geometry, length), np.zeros(length, np.float32)
    place = (loudspeaker.azimuth_deg, loudspeaker.elevation_deg, loudspeaker.distance_m)
    response = impulse_responses(geometry, room, *place)
    echo = loudspeaker.late(_convolve(loudspeaker.emitted(length), response)[:length])
    echo *= _gain(_loudness(echo), level, -loudspeaker.echo_db)
    return echo, loudspeaker.played(length)


def _gain(noise_power: float, speech: float, snr_db: float) -> np.float32:
    return np.float32(np.sqrt(speech / max(noise_power, 1e-20) * 10 ** (-snr_db / 10)))


def _on_device(geometry: Geometry, microphones: Channels, channels: int | None) -> Channels:
    """The microphones at their channels, the others silent."""
    count = channels or max((*geometry.channels, *geometry.references)) + 1
    frames = np.zeros((len(microphones), count), np.float32)
    frames[:, list(geometry.channels)] = microphones
    return frames


# --- one sound -----------------------------------------------------------------------------------------


def _all_heard(
    geometry: Geometry, room: Room, sounds: Sequence[Sound], length: int, early_s: float | None = None
) -> Channels:
    """[length, microphones]: the sum of ``_heard``."""
    heard = (_heard(geometry, room, sound, length, early_s) for sound in sounds)
    return sum(heard, _silence(geometry, length))


def _heard(
    geometry: Geometry, room: Room, sound: Sound, length: int, early_s: float | None = None
) -> Channels:
    """A sound as the microphones hear it, at its level; ``early_s``: no longer after the direct sound."""
    level = 10 ** (sound.level_db / 20) * 0.1 / np.sqrt(max(speech_power(sound.audio), 1e-12))
    audio = (sound.audio * level).astype(np.float32)
    start = round(sound.start_s * FRAME.rate_hz)
    out = _silence(geometry, length)
    for offset, piece, azimuth in _pieces(sound, audio):
        response = impulse_responses(geometry, room, azimuth, sound.elevation_deg, sound.distance_m)
        if early_s is not None:
            response = response[:, : int(np.abs(response[0]).argmax()) + round(early_s * FRAME.rate_hz)]
        heard = _convolve(piece, response)
        first = start + offset
        last = min(length, first + len(heard))
        if first < length:
            out[first:last] += heard[: last - first]
    return out


def _pieces(sound: Sound, audio: Audio) -> list[tuple[int, Audio, float]]:
    """Offset, samples, azimuth: the whole where the talker stands, else triangles that add up to it."""
    if len({azimuth for _, azimuth in sound.path}) == 1:
        return [(0, audio, sound.path[0][1])]
    step = round(PIECE_S * FRAME.rate_hz)
    window = np.concatenate((np.arange(step), np.arange(step, 0, -1))).astype(np.float32) / step
    padded = np.concatenate((np.zeros(step, np.float32), audio, np.zeros(2 * step, np.float32)))
    pieces: list[tuple[int, Audio, float]] = []
    for offset in range(-step, len(audio), step):
        middle_s = sound.start_s + (offset + step) / FRAME.rate_hz
        piece: Audio = (padded[offset + step : offset + 3 * step] * window).astype(np.float32)
        first = max(0, -offset)
        pieces.append((max(0, offset), piece[first:], sound.azimuth(middle_s)))
    return pieces


def _convolve(audio: Audio, response: NDArray[np.float64]) -> Channels:
    size = 1 << int(np.ceil(np.log2(len(audio) + response.shape[1])))
    spectrum = np.fft.rfft(audio, size)[None] * np.fft.rfft(response, size)
    heard = np.fft.irfft(spectrum, size)[:, : len(audio) + response.shape[1] - 1]
    return np.ascontiguousarray(heard.T, np.float32)


@lru_cache(maxsize=64)  # of a room with 0.6 s each takes seconds
def impulse_responses(
    geometry: Geometry, room: Room, azimuth_deg: float, elevation_deg: float, distance_m: float
) -> NDArray[np.float64]:
    """[microphones, n] from a place (angles in the device's frame), scaled: 1 is the direct sound."""
    if room.rt60_s == 0:
        return _open_air(geometry, azimuth_deg, elevation_deg)
    import pyroomacoustics

    absorption, order = pyroomacoustics.inverse_sabine(room.rt60_s, room.size)
    box = pyroomacoustics.ShoeBox(
        room.size, FRAME.rate_hz, materials=pyroomacoustics.Material(absorption), max_order=order
    )
    where = np.array(room.array) + distance_m * unit(azimuth_deg, elevation_deg)
    box.add_source(np.clip(where, 0.1, np.array(room.size) - 0.1))
    box.add_microphone_array((np.array(room.array) + geometry.centred).T)
    box.compute_rir()
    responses: list[Any] = [row[0] for row in box.rir]
    longest = max(map(len, responses))
    padded = np.stack([np.pad(r, (0, longest - len(r))) for r in responses])
    lead = pyroomacoustics.constants.get("frac_delay_length") // 2  # the simulation is late by so much
    return np.asarray(padded[:, lead:] * distance_m * 4 * np.pi)


def _open_air(
    geometry: Geometry, azimuth_deg: float, elevation_deg: float, size: int = 256
) -> NDArray[np.float64]:
    """A plane wave: pure delays, exact below the Nyquist frequency."""
    frequencies = np.fft.rfftfreq(size, 1 / FRAME.rate_hz)
    phasors = geometry.steering(unit(azimuth_deg, elevation_deg)[None], frequencies)[0]
    phasors[-1] = phasors[-1].real
    middle = np.exp(-2j * np.pi * frequencies * (size // 2) / FRAME.rate_hz)[:, None]
    return np.fft.irfft(phasors * middle, size, axis=0).T


def _diffuse(geometry: Geometry, hum: Audio | None, length: int, rng: np.random.Generator) -> Channels:
    """Noise from all around: plane waves of different stretches of the noise."""
    out = _silence(geometry, length)
    size = 1 << int(np.ceil(np.log2(length + 256)))
    frequencies = np.fft.rfftfreq(size, 1 / FRAME.rate_hz)
    z = rng.uniform(-1, 1, HUM_WAVES)
    azimuths = rng.uniform(0, 360, HUM_WAVES)
    for azimuth, height in zip(azimuths, z, strict=True):
        stretch = _stretch(hum, length, rng)
        direction = unit(float(azimuth), float(np.degrees(np.arcsin(height))))[None]
        phasors = geometry.steering(direction, frequencies)[0]
        wave = np.fft.rfft(stretch, size)[:, None] * phasors
        out += np.fft.irfft(wave, size, axis=0)[:length].astype(np.float32)
    return out


def _stretch(hum: Audio | None, length: int, rng: np.random.Generator) -> Audio:
    if hum is None:
        return rng.standard_normal(length).astype(np.float32)
    start = int(rng.integers(0, len(hum)))
    return np.take(hum, np.arange(start, start + length), mode="wrap").astype(np.float32)
