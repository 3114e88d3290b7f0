"""Shapes of audio, derived once: nothing else in the code holds a bare 512 or 16000."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property


class SampleFormat(str, Enum):
    """Interleaved little-endian PCM. ``S24`` is packed, three bytes a sample."""

    S16 = "s16"
    S24 = "s24"
    S32 = "s32"
    F32 = "f32"

    @property
    def sample_bytes(self) -> int:
        return {"s16": 2, "s24": 3, "s32": 4, "f32": 4}[self.value]


@dataclass(frozen=True)
class AudioSpec:
    """What a device delivers and a ring carries: rate in Hz, channels, sample format."""

    rate_hz: int
    channels: int
    format: SampleFormat

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame: one sample of every channel."""
        return self.channels * self.format.sample_bytes

    def frames(self, seconds: float) -> int:
        return round(seconds * self.rate_hz)

    def __str__(self) -> str:
        return f"{self.rate_hz} Hz, {self.channels} ch, {self.format.value.upper()}"


@dataclass(frozen=True)
class FrameSpec:
    """The frame grid of the front end at the models' rate."""

    rate_hz: int = 16_000
    hop_ms: int = 8  # DTLN's hop (Westhausen & Meyer 2020)
    window_hops: int = 4  # DTLN's window: 512 samples
    block_hops: int = 4  # Silero's chunk: 512 samples, 32 ms; the unit in which the front end works

    @cached_property
    def hop(self) -> int:
        return self.rate_hz * self.hop_ms // 1000

    @cached_property
    def window(self) -> int:
        return self.hop * self.window_hops

    @cached_property
    def block(self) -> int:
        """Samples of one front-end block."""
        return self.hop * self.block_hops

    @cached_property
    def block_ms(self) -> int:
        return self.hop_ms * self.block_hops

    def blocks(self, ms: float) -> int:
        """How many blocks cover ``ms`` milliseconds, rounded up."""
        return -(-int(ms) // self.block_ms)


FRAME = FrameSpec()

FLOOR_DB = -120.0  # digital silence is -inf dB; 20 dB below the noise of the best 16-bit recording
