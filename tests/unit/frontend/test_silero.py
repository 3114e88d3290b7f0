"""The batched VAD against the published network fed one chunk at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosyd.frontend.silero import SileroVad
from cosyd.models.onnx import open_session
from cosyd.spec import FRAME

FILE = "silero_vad_16k_op15.onnx"


@pytest.fixture(scope="module")
def vad(models_dir: Path) -> SileroVad:
    return SileroVad(models_dir / "silero-vad-6" / FILE, slots=4)


def speech(models_dir: Path) -> np.ndarray:
    soundfile = pytest.importorskip("soundfile")
    audio, rate = soundfile.read(models_dir / "demo-speech" / "beckett.wav", dtype="float32")
    assert rate == 16_000
    return audio[: len(audio) // 512 * 512].reshape(-1, 512)


def published(path: Path, blocks: np.ndarray) -> np.ndarray:
    network = open_session(path)
    state, context, out = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32), []
    for block in blocks:
        heard = np.concatenate((context, block))[None]
        probability, state = network.run({"input": heard, "state": state, "sr": np.array(16_000, np.int64)})
        context = block[-64:]
        out.append(probability[0, 0])
    return np.array(out)


def test_equals_the_published_network(vad: SileroVad, models_dir: Path) -> None:
    blocks = speech(models_dir)
    vad.reset(np.array([1]))
    got = np.array([vad.process(np.array([1]), block[None])[0] for block in blocks])
    np.testing.assert_array_equal(got, published(models_dir / "silero-vad-6" / FILE, blocks))
    assert got.max() > 0.9 and got.min() < 0.1


def test_the_batch_changes_no_bit(vad: SileroVad, models_dir: Path) -> None:
    blocks = speech(models_dir)[:60]
    expected = published(models_dir / "silero-vad-6" / FILE, blocks)
    rng = np.random.default_rng(2)
    vad.reset(np.arange(4))
    for index, block in enumerate(blocks):
        slots = np.array([2, 0, 3, 1][: 1 + index % 4])
        x = rng.standard_normal((len(slots), FRAME.block)).astype(np.float32)
        x[0] = block
        assert vad.process(slots, x)[0] == expected[index]


def test_silence_is_not_speech(vad: SileroVad) -> None:
    vad.reset(np.array([0]))
    for _ in range(20):
        assert vad.process(np.array([0]), np.zeros((1, FRAME.block), np.float32))[0] < 0.1
