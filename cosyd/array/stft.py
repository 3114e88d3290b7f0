"""Short-time spectra of several channels, hop by hop, and back to sound.

Window: the root of a periodic Hann window over two hops, for analysis and for synthesis, so that what is not
changed comes back exactly. Going there and back takes one hop.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosyd.array.step import Samples
from cosyd.spec import FRAME

Spectra = NDArray[np.complex64]

SIZE = 2 * FRAME.hop  # 16 ms; of a 10 cm array the longest lead is 0.3 ms, so a phase is as good as a delay
BINS = SIZE // 2 + 1
FREQUENCIES_HZ: NDArray[np.float64] = np.arange(BINS, dtype=np.float64) * (FRAME.rate_hz / SIZE)
_WINDOW = np.sin(np.pi * np.arange(SIZE) / SIZE).astype(np.float32)


class Analysis:
    """Of ``channels`` channels. Frame h is of the hop h and the one before it."""

    bins = BINS

    def __init__(self, channels: int) -> None:
        self._before = np.zeros((channels, FRAME.hop), np.float32)

    def reset(self) -> None:
        self._before[:] = 0

    def __call__(self, block: Samples) -> Spectra:
        """float32 [channels, n hops] -> complex64 [hops, channels, BINS]."""
        line = np.concatenate((self._before, block), axis=1)
        self._before = block[:, -FRAME.hop :].copy()
        hops = block.shape[1] // FRAME.hop
        step, item = line.strides
        shape, strides = (hops, len(line), SIZE), (FRAME.hop * item, step, item)
        windows = np.ndarray(shape, np.float32, line, 0, strides)
        return np.fft.rfft(windows * _WINDOW).astype(np.complex64, copy=False)


class Synthesis:
    """Back to one channel, one hop late."""

    delay = FRAME.hop

    def __init__(self) -> None:
        self._rest = np.zeros(FRAME.hop, np.float32)

    def reset(self) -> None:
        self._rest[:] = 0

    def __call__(self, spectra: Spectra) -> Samples:
        """complex64 [hops, BINS] -> float32 [hops · hop]."""
        frames = np.fft.irfft(spectra, SIZE).astype(np.float32, copy=False) * _WINDOW
        tails = np.concatenate((self._rest[None], frames[:-1, FRAME.hop :]))
        self._rest = frames[-1, FRAME.hop :].copy()
        return (frames[:, : FRAME.hop] + tails).reshape(-1)
