"""Sound files hold exactly what was written, or say that they cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from cosyd.capture.write import SoundFile
from cosyd.errors import AudioError, UnsupportedFormat
from cosyd.spec import AudioSpec, SampleFormat

RANDOM = np.random.default_rng(1)


def frames(kind: SampleFormat, channels: int = 3) -> np.ndarray:
    if kind is SampleFormat.F32:
        return RANDOM.uniform(-1, 1, (1000, channels)).astype(np.float32)
    if kind is SampleFormat.S24:
        return RANDOM.integers(0, 256, (1000, channels, 3), dtype=np.uint8)
    kind_of = np.int16 if kind is SampleFormat.S16 else np.int32
    limits = np.iinfo(kind_of)
    return RANDOM.integers(limits.min, limits.max, (1000, channels), dtype=kind_of, endpoint=True)


def values(written: np.ndarray) -> np.ndarray:
    """Packed 24 bit as int32, all else as it is."""
    if written.dtype != np.uint8:
        return written
    low, middle, high = (written[..., i].astype(np.int32) for i in range(3))
    return ((high << 24) | (middle << 16) | (low << 8)).astype(np.int32)


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
@pytest.mark.parametrize("kind", list(SampleFormat))
def test_what_is_written_is_read_again(tmp_path: Path, kind: SampleFormat, suffix: str) -> None:
    path, spec = tmp_path / f"sound{suffix}", AudioSpec(48_000, 3, kind)
    if suffix == ".flac" and kind in (SampleFormat.S32, SampleFormat.F32):
        with pytest.raises(UnsupportedFormat, match=r"FLAC cannot hold .* exactly; write a \.wav"):
            SoundFile(path, spec)
        assert not path.exists()
        return
    written = frames(kind)
    with SoundFile(path, spec) as file:
        file.write(written[:300])
        file.write(written[300:])
        assert file.frames == 1000
    dtype = {"s16": "int16", "f32": "float32"}.get(kind.value, "int32")
    read, rate = soundfile.read(path, dtype=dtype)
    assert rate == 48_000 and np.array_equal(read, values(written))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    path.write_text("precious")
    with pytest.raises(AudioError, match="exists already"):
        SoundFile(path, AudioSpec(16_000, 1, SampleFormat.S16))
    assert path.read_text() == "precious"


@pytest.mark.parametrize("name", ["sound.mp3", "sound"])
def test_other_formats_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedFormat, match=r"recordings are \.wav or \.flac"):
        SoundFile(tmp_path / name, AudioSpec(16_000, 1, SampleFormat.S16))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="cannot be written"):
        SoundFile(tmp_path / "absent" / "sound.wav", AudioSpec(16_000, 1, SampleFormat.S16))
