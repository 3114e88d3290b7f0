"""How recordings become the inputs of a network: to calibrate 8-bit products and to check a precision."""

from __future__ import annotations

import wave
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.protocol import Engine
from cosyd.errors import ModelError

Array = NDArray[Any]
Audio = NDArray[np.float32]
Feeds = Mapping[str, Array]

RATE_HZ = 16_000
LONGEST_S = 30  # of each recording; more of one voice tells nothing new
SCALES = {1: 128.0, 2: 32_768.0, 3: 8_388_608.0, 4: 2_147_483_648.0}  # bytes of a sample -> full scale


def samples_as_they_are(window: Audio) -> Array:
    return window


@dataclass(frozen=True)
class Recipe:
    """A network that takes a stream step by step, one stream at a time.

    ``features``: audio [1, window] -> the input called ``input``, or several by their names. The next window
    is ``hop`` samples later.
    ``states``: input -> output that it takes its next value from; the first is zeros.
    ``constants``: inputs that never change.
    """

    input: str
    window: int
    hop: int
    features: Callable[[Audio], Array | Feeds] = samples_as_they_are
    states: Mapping[str, str] = field(default_factory=dict)
    constants: Feeds = field(default_factory=dict)

    def steps(self, engine: Engine, audio: Audio) -> Iterator[tuple[Feeds, dict[str, Array]]]:
        """The engine's inputs and outputs, step by step; it moves its own states on."""
        specs = {spec.name: spec for spec in engine.inputs}
        states = {
            name: np.zeros(specs[name].sized(dict.fromkeys(specs[name].symbols, 1)), specs[name].dtype)
            for name in self.states
        }
        for start in range(0, len(audio) - self.window + 1, self.hop):
            heard = np.ascontiguousarray(audio[None, start : start + self.window])
            given = self.features(heard)
            named = given if isinstance(given, Mapping) else {self.input: given}
            feeds = {**named, **self.constants, **states}
            outputs = engine.run(feeds)
            states = {name: outputs[source] for name, source in self.states.items()}
            yield feeds, outputs


def calibration_feeds(recipe: Recipe, engine: Engine, recordings: Sequence[Audio]) -> Iterator[Feeds]:
    """What the network is given while it hears these recordings. ``engine``: the network in float32."""
    for audio in recordings:
        for feeds, _ in recipe.steps(engine, audio):
            yield feeds


def read_wavs(folder: Path) -> list[Audio]:
    """Every ``*.wav`` below a folder: 16 kHz PCM, first channel, -1..1. Raises ModelError naming the file."""
    paths = sorted(folder.rglob("*.wav"))
    if not paths:
        raise ModelError(f"{folder}: no *.wav below it to calibrate with")
    return [read_wav(path) for path in paths]


def read_wav(path: Path) -> Audio:
    """16 kHz PCM, first channel, -1..1. Raises ModelError naming the file."""
    try:
        with wave.open(str(path)) as file:
            rate, width, channels = file.getframerate(), file.getsampwidth(), file.getnchannels()
            data = file.readframes(LONGEST_S * rate)
    except (wave.Error, EOFError, OSError) as error:
        raise ModelError(f"{path}: not a WAV file of PCM samples: {error}") from error
    if rate != RATE_HZ:
        raise ModelError(f"{path}: {rate} Hz; calibration takes recordings of {RATE_HZ} Hz")
    return _decode(data, width)[::channels] / np.float32(SCALES[width])


def _decode(data: bytes, width: int) -> Audio:
    """PCM: 8 bits are unsigned, wider ones signed, little-endian."""
    if width == 1:
        return np.frombuffer(data, np.uint8).astype(np.float32) - 128
    if width == 3:
        raw = np.frombuffer(data, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(raw), 4), np.uint8)
        wide[:, 1:] = raw
        return (wide.view("<i4")[:, 0] >> 8).astype(np.float32)
    return np.frombuffer(data, f"<i{width}").astype(np.float32)
