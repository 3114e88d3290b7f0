"""The batched denoiser against the published networks, hop by hop as the paper has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosyd.errors import ModelDamaged
from cosyd.frontend.dtln import Dtln
from cosyd.frontend.resample import Resampler
from cosyd.models.onnx import open_session
from cosyd.spec import FRAME


@pytest.fixture(scope="module")
def dtln(models_dir: Path) -> Dtln:
    return Dtln(models_dir / "dtln" / "model_1.onnx", models_dir / "dtln" / "model_2.onnx", slots=5)


def through(stage: Dtln, x: np.ndarray, slot: int = 0) -> np.ndarray:
    slots = np.array([slot], np.intp)
    stage.reset(slots)
    return np.concatenate([stage.process(slots, b[None])[0] for b in x.reshape(-1, FRAME.block)])


def published(folder: Path, x: np.ndarray) -> np.ndarray:
    """One stream, one hop at a time, float64 between the published networks."""
    first, second = open_session(folder / "model_1.onnx"), open_session(folder / "model_2.onnx")
    state_1 = state_2 = np.zeros((1, 2, 128, 2), np.float32)
    heard, overlap, out = np.zeros(512), np.zeros(512), []
    for hop in x.astype(np.float64).reshape(-1, 128):
        heard = np.concatenate((heard[128:], hop))
        spectrum = np.fft.rfft(heard)
        magnitude = np.abs(spectrum).reshape(1, 1, -1).astype(np.float32)
        mask, state_1 = first.run({"input_2": magnitude, "input_3": state_1})
        estimate = np.fft.irfft(np.abs(spectrum) * mask[0, 0] * np.exp(1j * np.angle(spectrum)))
        frame, state_2 = second.run(
            {"input_4": estimate.reshape(1, 1, -1).astype(np.float32), "input_5": state_2}
        )
        overlap = np.concatenate((overlap[128:], np.zeros(128))) + frame[0, 0]
        out.append(overlap[:128])
    return np.concatenate(out)


def speech(models_dir: Path, seconds: float = 8) -> np.ndarray:
    """The demo recording at 16 kHz."""
    soundfile = pytest.importorskip("soundfile")
    audio, rate = soundfile.read(
        models_dir / "demo-speech" / "two_cities.wav", dtype="float32", frames=48_000 * 10
    )
    resampler = Resampler(rate)
    resampler.push(audio)
    blocks = []
    while (block := resampler.take()) is not None:
        blocks.append(block)
    return np.concatenate(blocks)[: int(seconds * 16_000) // 512 * 512]


def si_sdr(estimate: np.ndarray, target: np.ndarray) -> float:
    """Scale-invariant signal-to-distortion ratio in dB."""
    scaled = target * (estimate @ target) / (target @ target)
    return float(10 * np.log10((scaled @ scaled) / np.sum((estimate - scaled) ** 2)))


def noisy(target: np.ndarray, noise: np.ndarray, snr_db: float = 5) -> np.ndarray:
    gain = np.sqrt(np.mean(target**2) / np.mean(noise**2) / 10 ** (snr_db / 10))
    return (target + gain * noise).astype(np.float32)


def test_equals_the_published_networks(dtln: Dtln, models_dir: Path) -> None:
    """Float32 rounding, carried on through the recurrences: within 2e-6 of full scale over 3 s."""
    x = noisy(speech(models_dir, 3), np.random.default_rng(0).standard_normal(93 * 512))
    expected = published(models_dir / "dtln", x)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(through(dtln, x), expected, atol=2e-6)


def test_the_batch_changes_no_bit(dtln: Dtln) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((12, 5, 512)).astype(np.float32) * 0.1
    alone = through(dtln, x[:, 3].ravel(), slot=3).reshape(12, 512)
    dtln.reset(np.arange(5))
    for block in range(12):
        others = rng.permutation(5)
        slots = np.concatenate(([3], others[others != 3][: block % 5]))  # 1 to 5 streams, in any order
        out = dtln.process(slots, x[block, slots])
        np.testing.assert_array_equal(out[0], alone[block])


def test_how_many_blocks_come_at_once_changes_no_bit(dtln: Dtln) -> None:
    x = np.random.default_rng(4).standard_normal((1, 30 * 512)).astype(np.float32) * 0.1
    expected = through(dtln, x[0])
    slots = np.array([0])
    dtln.reset(slots)
    parts = np.split(x, [512, 3 * 512, 11 * 512, 14 * 512], axis=1)
    np.testing.assert_array_equal(np.concatenate([dtln.process(slots, p)[0] for p in parts]), expected)


def test_white_noise_is_taken_off_speech(dtln: Dtln, models_dir: Path) -> None:
    target = speech(models_dir)
    x = noisy(target, np.random.default_rng(1).standard_normal(len(target)))
    gained = si_sdr(through(dtln, x)[dtln.delay :], target[: -dtln.delay]) - si_sdr(x, target)
    assert gained > 5


def test_kitchen_noise_is_taken_off_speech(dtln: Dtln, models_dir: Path, shared_data: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    kitchen, _ = soundfile.read(shared_data / "noise" / "kitchen.flac", dtype="float32")
    target = speech(models_dir)
    x = noisy(target, kitchen[: len(target)])
    assert si_sdr(through(dtln, x)[dtln.delay :], target[: -dtln.delay]) - si_sdr(x, target) > 2


def test_silence_stays_silent(dtln: Dtln) -> None:
    assert np.abs(through(dtln, np.zeros(20 * 512, np.float32))).max() < 1e-4


def test_another_network_is_refused(models_dir: Path) -> None:
    folder = models_dir / "dtln"
    with pytest.raises(ModelDamaged, match="not DTLN's first network"):
        Dtln(folder / "model_2.onnx", folder / "model_1.onnx", slots=1)
