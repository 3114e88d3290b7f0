"""What a pipeline computes, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cosyd.config.schema import FrontendConfig
from cosyd.frontend.contract import needs_denoiser
from cosyd.gpu.mel import KALDI, MelDesign
from cosyd.spec import FRAME

Mode = Literal["fp32", "fp16", "bf16"]


@dataclass(frozen=True)
class Settings:
    """What the pipeline computes."""

    slots: int
    mode: Mode = "fp32"
    denoise: bool = True
    blend: float = 1.0  # share of the denoised signal in what the recogniser and the features hear
    vad_denoised: bool = False
    remove_dc: bool = True
    mel: MelDesign | None = KALDI
    channels: int = 2  # of the widest frames; of more there are no statistics
    sample_bytes: int = 4  # of the widest format
    rates_hz: tuple[int, ...] = (16_000, 44_100, 48_000)
    lent: bool = False  # PCM may be read where it lies: graphs without its copy, too
    silence: float = 1e-3  # -60 dBFS: samples below count as silent

    @property
    def frame_bytes(self) -> int:
        """Of the widest frames at the highest rate; slower streams may have wider ones."""
        return self.channels * self.sample_bytes

    @property
    def lead(self) -> int:
        """Samples before time 0 with which a stream begins, so that blocks come out at whole blocks."""
        return -self.trail % FRAME.block

    @property
    def vad_origin(self) -> int:
        """Index of time 0 in the signal that the VAD hears."""
        return self.lead + (self.trail if self.vad_denoised else 0)

    @property
    def heard_origin(self) -> int:
        """Index of time 0 in the signal that the recogniser hears."""
        return self.lead + (self.trail if self.share > 0 else 0)

    @property
    def share(self) -> float:
        """``blend``, 0 without a denoiser."""
        return self.blend if self.denoise else 0.0

    @property
    def trail(self) -> int:
        """Samples by which the recogniser's signal trails the input."""
        return FRAME.window - FRAME.hop if self.denoise else 0


def settings_for(
    config: FrontendConfig, mode: Mode = "fp32", channels: int = 2, sample_bytes: int = 4
) -> Settings:
    """The pipeline that a configuration asks for. ``channels``, ``sample_bytes``: of the widest source."""
    denoise = needs_denoiser(config)
    share = {"raw": 0.0, "denoised": 1.0, "blend": config.blend}[config.asr_input]
    return Settings(
        slots=config.max_streams,
        mode=mode,
        denoise=denoise,
        blend=share if denoise else 0.0,
        vad_denoised=denoise and config.vad_input == "denoised",
        remove_dc=config.remove_dc,
        channels=channels,
        sample_bytes=sample_bytes,
    )
