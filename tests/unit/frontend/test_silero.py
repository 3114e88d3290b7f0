"""The batched VAD against the published network fed one chunk at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosyd.errors import ModelDamaged
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
    """Float32 rounding, carried on through the recurrence over the whole recording."""
    blocks = speech(models_dir)
    vad.reset(np.array([1]))
    got = np.array([vad.process(np.array([1]), block[None])[0] for block in blocks])
    np.testing.assert_allclose(got, published(models_dir / "silero-vad-6" / FILE, blocks), atol=1e-5)
    assert got.max() > 0.9 and got.min() < 0.1


def test_neither_the_batch_nor_how_many_blocks_come_at_once_changes_a_bit(
    vad: SileroVad, models_dir: Path
) -> None:
    blocks = speech(models_dir)[:120]
    alone = np.array([1])
    vad.reset(alone)
    expected = [vad.process(alone, block[None])[0] for block in blocks]
    rng = np.random.default_rng(2)
    vad.reset(np.arange(4))
    got: list[float] = []
    while len(got) < len(blocks):
        count = min(int(rng.integers(1, 9)), len(blocks) - len(got))
        slots = np.array([2, 0, 3, 1][: int(rng.integers(1, 5))])
        x = rng.standard_normal((len(slots), count * FRAME.block)).astype(np.float32)
        x[0] = blocks[len(got) : len(got) + count].reshape(-1)
        got += list(vad.detect(slots, x)[0])
    np.testing.assert_array_equal(got, expected)


def test_another_network_is_refused(models_dir: Path) -> None:
    with pytest.raises(ModelDamaged, match="not Silero VAD 6"):
        SileroVad(models_dir / "dtln" / "model_1.onnx", slots=1)


def test_silence_is_not_speech(vad: SileroVad) -> None:
    vad.reset(np.array([0]))
    for _ in range(20):
        assert vad.process(np.array([0]), np.zeros((1, FRAME.block), np.float32))[0] < 0.1
