"""Sound files as they are written: WAV and FLAC, sample by sample what a ring carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import AudioError, UnsupportedFormat
from cosyd.spec import AudioSpec, SampleFormat

_SUBTYPES = {
    SampleFormat.S16: "PCM_16",
    SampleFormat.S24: "PCM_24",
    SampleFormat.S32: "PCM_32",
    SampleFormat.F32: "FLOAT",
}
_FLAC_CHANNELS = 8  # of the format
_WAV_BYTES = (1 << 32) - (1 << 16)  # WAV counts in 32 bits; the rest is for its headers


class SoundFile:
    """A new file; the suffix says which format. Nothing is rounded: what cannot be kept exactly is refused.

    A context manager. Raises UnsupportedFormat for what the format cannot hold, AudioError for what the
    system refuses.
    """

    def __init__(self, path: Path, spec: AudioSpec) -> None:
        import soundfile

        kind = _kind(path, spec)
        if path.exists():
            raise AudioError(f"{path} exists already; name another file with --out")
        self.path, self.spec = path, spec
        self.frames = 0
        try:
            self._file = soundfile.SoundFile(
                path, "x", spec.rate_hz, spec.channels, _SUBTYPES[spec.format], format=kind
            )
        except (soundfile.LibsndfileError, OSError) as error:
            raise AudioError(f"{path} cannot be written: {error}") from error

    def __enter__(self) -> SoundFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def room(self) -> int:
        """Frames that still fit."""
        return _WAV_BYTES // self.spec.frame_bytes - self.frames

    def write(self, frames: NDArray[Any]) -> None:
        """Frames as a ring gives them: [n, channels], or bytes [n, channels, 3] of packed 24 bit."""
        import soundfile

        if self.spec.format is SampleFormat.S24:
            frames = _wide(frames)
        try:
            self._file.write(frames)
        except (soundfile.LibsndfileError, OSError) as error:
            raise AudioError(f"{self.path} cannot be written: {error}") from error
        self.frames += len(frames)

    def close(self) -> None:
        """Idempotent."""
        self._file.close()


def _kind(path: Path, spec: AudioSpec) -> str:
    suffix = path.suffix.lower()
    if suffix == ".wav":
        return "WAV"
    if suffix != ".flac":
        raise UnsupportedFormat(f"{path}: recordings are .wav or .flac, not {suffix or 'without a suffix'}")
    if spec.channels > _FLAC_CHANNELS or spec.format not in (SampleFormat.S16, SampleFormat.S24):
        raise UnsupportedFormat(f"{path}: FLAC cannot hold {spec} exactly; write a .wav")
    return "FLAC"


def _wide(packed: NDArray[Any]) -> NDArray[np.int32]:
    """Bytes [n, channels, 3], least significant first, in the upper 24 bits of int32 [n, channels]."""
    wide = np.zeros((*packed.shape[:-1], 4), np.uint8)
    wide[..., 1:] = packed
    return wide.view("<i4")[..., 0]
