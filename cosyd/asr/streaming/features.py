"""Feature frames from samples as they come, on the CPU.

Kaldi's filter banks by kaldi-native-fbank, as icefall, wenet and NeMo exports expect them through
sherpa-onnx; and the log-mel frames of cosyd's own export format. Both keep the carry-over between pieces, so
the result does not depend on how the audio was cut.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import ModelDamaged, ModelError

Frames = NDArray[np.float32]
Audio = NDArray[np.float32]
RATE_HZ = 16_000
INT16_SCALE = 32_768.0


@dataclass(frozen=True)
class FeatureSpec:
    """``scale``: what samples in ±1 are multiplied with. ``filters``: the mel matrix of kind ``log_mel``."""

    kind: Literal["fbank", "nemo", "log_mel"] = "fbank"
    bins: int = 80
    scale: float = 1.0
    filters: Path | None = None
    shift: int = 160  # samples between frames
    length: int = 400  # samples under a frame's window

    @property
    def shift_s(self) -> float:
        return self.shift / RATE_HZ

    def frames(self, samples: int) -> int:
        """Frames that begin within so many samples."""
        return -(-samples // self.shift)

    def samples_for(self, frames: int) -> int:
        """Fewest samples after which so many frames are complete."""
        if frames <= 0:
            return 0
        if self.kind == "log_mel":
            return frames * self.shift
        # Kaldi without snapped edges: frame t is centred on its shift and needs what lies under it.
        return (frames - 1) * self.shift + (self.shift + self.length) // 2

    def open(self) -> FeatureStream:
        return LogMelStream(self) if self.kind == "log_mel" else FbankStream(self)


class FeatureStream(Protocol):
    """Samples in, frames out, each once; for one stream."""

    def accept(self, audio: Audio) -> None:
        """float32 [n] in ±1 at 16 kHz, any n."""
        ...

    @property
    def ready(self) -> int:
        """Frames that are complete, counted from the first frame not yet dropped."""
        ...

    def window(self, frames: int, advance: int) -> Frames:
        """The first ``frames`` frames [frames, bins]; then drop the first ``advance``."""
        ...


@cache
def _fbank_options(kind: str, bins: int) -> Any:
    try:
        import kaldi_native_fbank
    except ImportError as error:
        raise ModelError(
            f"kaldi-native-fbank cannot be imported ({error}); run: pip install kaldi-native-fbank"
        ) from error
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0.0
    options.frame_opts.snip_edges = False
    options.frame_opts.samp_freq = RATE_HZ
    options.mel_opts.num_bins = bins
    options.mel_opts.high_freq = -400.0  # below the Nyquist frequency, as lhotse does
    if kind == "nemo":  # librosa's filters over the whole band
        options.mel_opts.low_freq = options.mel_opts.high_freq = 0.0
        options.mel_opts.is_librosa = True
        options.frame_opts.remove_dc_offset = False
        options.frame_opts.window_type = "hann"
    return options


class FbankStream:
    """Kaldi's log-mel filter banks: 25/10 ms, povey window, no dither, 20 to 7600 Hz; or NeMo's.

    Frames are copied out of the library as soon as they are complete and forgotten there.
    """

    def __init__(self, spec: FeatureSpec) -> None:
        options = _fbank_options(spec.kind, spec.bins)
        import kaldi_native_fbank

        self._spec = spec
        self._fbank = kaldi_native_fbank.OnlineFbank(options)
        self._taken = 0
        self._frames: Frames = np.empty((0, spec.bins), np.float32)

    def accept(self, audio: Audio) -> None:
        samples = audio if self._spec.scale == 1.0 else audio * np.float32(self._spec.scale)
        # Of all sequences the library takes this one the quickest; NumPy's arrays take half as long again.
        self._fbank.accept_waveform(RATE_HZ, array("f", np.asarray(samples, np.float32).tobytes()))
        total = self._fbank.num_frames_ready
        if total == self._taken:
            return
        fresh = np.array([self._fbank.get_frame(i) for i in range(self._taken, total)], np.float32)
        self._fbank.pop(total - self._taken)
        self._taken = total
        self._frames = np.concatenate([self._frames, fresh])

    @property
    def ready(self) -> int:
        return len(self._frames)

    def window(self, frames: int, advance: int) -> Frames:
        taken, self._frames = self._frames[:frames], self._frames[advance:]
        return taken


@cache
def _log_mel_filters(path: Path) -> Frames:
    try:
        filters = np.load(path)
    except (OSError, ValueError) as error:
        raise ModelDamaged(f"{path}: cannot be read: {error}") from error
    if filters.ndim != 2:
        raise ModelDamaged(f"{path}: shape {filters.shape} is no matrix of mel filters")
    return np.asarray(filters, np.float32)


class LogMelStream:
    """Hann window 400 (periodic), hop 160, power spectrum, mel, log10 with a floor, (x + 4) / 4.

    The first frames hear silence before the beginning: ``length - shift`` samples of it.
    """

    def __init__(self, spec: FeatureSpec) -> None:
        assert spec.filters is not None
        self._spec = spec
        self._filters = _log_mel_filters(spec.filters)
        self._window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(spec.length) / spec.length)).astype(
            np.float32
        )
        self._carry: Audio = np.zeros(spec.length - spec.shift, np.float32)
        self._frames: Frames = np.empty((0, spec.bins), np.float32)

    def accept(self, audio: Audio) -> None:
        spec = self._spec
        samples = np.concatenate([self._carry, audio])
        count = (len(samples) - spec.length) // spec.shift + 1
        if count <= 0:
            self._carry = samples
            return
        self._carry = samples[count * spec.shift :].copy()
        pieces = np.lib.stride_tricks.sliding_window_view(samples, spec.length)[:: spec.shift][:count]
        power = np.square(np.abs(np.fft.rfft(pieces * self._window, axis=1))).astype(np.float32)
        mel = np.log10(np.maximum(power @ self._filters.T, 1e-10))
        fresh = (np.maximum(mel, -6.5) + 4.0) / 4.0
        self._frames = np.concatenate([self._frames, fresh.astype(np.float32)])

    @property
    def ready(self) -> int:
        return len(self._frames)

    def window(self, frames: int, advance: int) -> Frames:
        taken, self._frames = self._frames[:frames], self._frames[advance:]
        return taken
