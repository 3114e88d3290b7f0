"""The listener with real networks on real sound, at no particular pace: few and short."""

from pathlib import Path

import numpy as np
import pytest
from asr_fakes import Rig, broken_promises

from cosyd.asr.moonshine import Moonshine
from cosyd.frontend.silero import SileroVad
from cosyd.spec import FRAME

NOISES = ("kitchen", "pink_noise", "white_noise", "doing_the_dishes")
NOISE_S = 20


@pytest.fixture(scope="module")
def vad(models_dir: Path) -> SileroVad:
    return SileroVad(models_dir / "silero-vad-6" / "silero_vad_16k_op15.onnx", 1)


@pytest.fixture(scope="module")
def moonshine(models_dir: Path) -> Moonshine:
    return Moonshine.load(models_dir / "moonshine-tiny-en")


def hear(vad: SileroVad, moonshine: Moonshine, audio: np.ndarray) -> Rig:
    slot = np.zeros(1, np.intp)
    vad.reset(slot)
    blocks = audio[: audio.size // FRAME.block * FRAME.block].reshape(-1, FRAME.block).astype(np.float32)
    rig = Rig(moonshine, delay=3)  # type: ignore[arg-type]
    return rig.feed([(block, float(vad.process(slot, block[None])[0])) for block in blocks]).finish()


def test_speech_between_silences(models_dir: Path, vad: SileroVad, moonshine: Moonshine) -> None:
    """Field case 18, short: nothing said in silence, nothing said twice, no promise broken."""
    soundfile = pytest.importorskip("soundfile")
    speech, _ = soundfile.read(models_dir / "demo-speech" / "beckett.wav", dtype="float32")
    silence = np.zeros(3 * FRAME.rate_hz, np.float32)
    rig = hear(vad, moonshine, np.concatenate([silence, speech, silence]))
    words = "".join(c for c in rig.text.lower() if c.isalpha() or c == " ").split()
    assert " ".join(words[:8]) == "ever tried ever failed no matter try again"
    assert 10 <= len(words) <= 13
    assert broken_promises(rig.events) == []
    for final in rig.finals:
        assert 3 * FRAME.rate_hz <= final.start_sample <= final.end_sample <= 13 * FRAME.rate_hz


@pytest.mark.parametrize("name", ["silence", *NOISES])
def test_noise_says_nothing(name: str, shared_data: Path, vad: SileroVad, moonshine: Moonshine) -> None:
    soundfile = pytest.importorskip("soundfile")
    audio = np.zeros(NOISE_S * FRAME.rate_hz, np.float32)
    if name != "silence":
        audio, _ = soundfile.read(shared_data / "noise" / f"{name}.flac", frames=audio.size, dtype="float32")
    rig = hear(vad, moonshine, audio)
    assert rig.text == ""
    assert not any(getattr(event, "text", "") for event in rig.events)
