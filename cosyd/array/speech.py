"""Which part of each bin is speech, told from what the denoiser left of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.array.step import Samples
from cosyd.array.stft import BINS, Analysis
from cosyd.spec import FRAME

QUIET = 0.15  # probability of speech below which all is noise; the denoiser rests there and tells nothing


class SpeechShare:
    """One stream: the blocks that a beam made, before and after the denoiser."""

    def __init__(self) -> None:
        self._spectra = Analysis(2)

    def reset(self) -> None:
        self._spectra.reset()

    def __call__(self, raw: Samples, denoised: Samples | None, prob: float) -> NDArray[np.float32]:
        """[block] twice -> [hops, BINS], 0 noise to 1 speech; without a denoiser as the VAD says."""
        hops = len(raw) // FRAME.hop
        pair = self._spectra(np.stack((raw, raw if denoised is None else denoised)))
        if prob < QUIET:
            return np.zeros((hops, BINS), np.float32)
        if denoised is None or denoised is raw:
            return np.full((hops, BINS), prob, np.float32)
        before, after = np.abs(pair[:, 0]), np.abs(pair[:, 1])
        return np.minimum(after / np.maximum(before, np.float32(1e-9)), 1.0).astype(np.float32, copy=False)
