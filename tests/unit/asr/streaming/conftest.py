"""Speech to run through the small models, and the folders of these models."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import streaming_models as small
from numpy.typing import NDArray
from sherpa_oracle import Found, Oracle, make_recognizer, transcribe

Audio = NDArray[np.float32]
RATE_HZ = 16_000


def voice(seconds: float, seed: int) -> Audio:
    """A buzz whose pitch and formants wander, with pauses: as lively in the features as speech."""
    rng = np.random.default_rng(seed)
    n = int(seconds * RATE_HZ)
    knots = np.linspace(0, n, max(4, int(seconds * 6)))
    at = np.arange(n)
    pitch = np.interp(at, knots, rng.uniform(90, 250, len(knots)))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE_HZ
    buzz = sum(
        np.interp(at, knots, rng.uniform(0, 1, len(knots))) * np.sin(k * phase) / np.sqrt(k)
        for k in range(1, 25)
    )
    loud = np.clip(np.interp(at, knots, rng.uniform(-0.4, 1, len(knots))), 0, 1)
    return (0.05 * loud * buzz + 0.003 * rng.standard_normal(n)).astype(np.float32)


@pytest.fixture(scope="session")
def voices() -> list[Audio]:
    """Eight made-up utterances of 1 to 5 s."""
    return [voice(seconds, seed) for seed, seconds in enumerate((3.1, 1.0, 4.4, 2.2, 5.0, 1.7, 2.9, 3.6))]


@pytest.fixture(scope="session")
def speech(shared_data: Path) -> list[Audio]:
    """Eight recordings of real speech, 5 s of each."""
    clips: list[Audio] = []
    with tarfile.open(shared_data / "train" / "librispeech-251-speakers.tar") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is None:
                continue
            audio, rate_hz = soundfile.read(io.BytesIO(file.read()), dtype="float32")
            assert rate_hz == RATE_HZ
            clips.append(audio[: 5 * RATE_HZ])
            if len(clips) == 8:
                break
    return clips


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A family's name -> the folder of a small model of it, made once."""
    root = tmp_path_factory.mktemp("models")
    made: dict[str, Path] = {}

    def make(family: str) -> Path:
        if family not in made:
            made[family] = small.save(root / family, family)
        return made[family]

    return make


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """(folder, family, clip, tail samples) -> what sherpa-onnx finds; recognisers and results are kept."""
    recognizers: dict[tuple[Path, tuple[tuple[str, object], ...]], object] = {}
    results: dict[tuple[object, ...], Found] = {}

    def ask(
        folder: Path, family: str, clip: Audio, tail: int, hotwords: str | None = None, **options: object
    ) -> Found:
        key = (folder, tuple(sorted(options.items())))
        if key not in recognizers:
            recognizers[key] = make_recognizer(folder, family, **options)
        which = (key, clip.tobytes(), tail, hotwords)
        if which not in results:
            results[which] = transcribe(recognizers[key], clip, tail, hotwords)
        return results[which]

    return ask
