"""The adaptive filter of the echo canceller: a Kalman filter in partitioned blocks of the frequency domain.

The echo path is a random walk, one complex gain a frequency and partition; its uncertainty is tracked beside
it. Where the uncertainty is small against what the microphones hear beside the echo, the filter hardly moves:
that is the double-talk control, and it needs no detector. G. Enzner and P. Vary, "Frequency-domain adaptive
Kalman filter for acoustic echo control in hands-free telephones", Signal Processing 86 (2006); partitions
after F. Kuech, E. Mabande and G. Enzner, "State-space architecture of the partitioned-block-based acoustic
echo controller", ICASSP 2014.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float32]
Complex = NDArray[np.complex64]

_KEPT = 0.9995  # of the echo path from block to block (the A of the papers): a person moves in the room
_PRIOR_GAIN = 0.24  # power gain from reference to microphone that is expected before anything is known
_GAINS = (1e-3, 1e3)  # of those that are possible; more is not the echo
_PRIOR_DECAY_S = 0.4  # reverberation time that is expected then
_RISE, _FALL = 0.5, 0.85  # smoothing of the near end's power: speech that sets in is noticed in two blocks
_SILENCE = 1e-10  # power below which there is nothing to learn from: -100 dBFS
_HALF = 0.5  # a block is half of its transform (overlap-save)


class KalmanEchoFilter:
    """For ``mics`` microphones and ``references`` played channels; not for several threads at once.

    ``block``: samples of one call; the transform has twice as many. ``partitions``: blocks of echo path.
    """

    def __init__(self, mics: int, references: int, block: int, partitions: int, rate_hz: int) -> None:
        bins = block + 1
        self.block = block
        self._shape = (mics, partitions, references, bins)
        self._x = np.zeros((partitions, references, bins), np.complex64)
        self._past = np.zeros((references, 2 * block), np.float32)
        decay = np.exp(-13.8 * np.arange(partitions) * block / rate_hz / _PRIOR_DECAY_S)  # ln 10^6 = 13.8
        self._shares = (decay / decay.sum()).astype(np.float32)[None, :, None, None]
        self._noise = np.float32(_SILENCE * block)
        self.reset()

    def reset(self) -> None:
        """Nothing is known of the echo path, and nothing was played."""
        self.forget()
        self._x[:] = 0
        self._past[:] = 0

    def forget(self, gain: float = _PRIOR_GAIN) -> None:
        """Nothing is known of the echo path any more but its power gain, about; what was played is known."""
        mics, _, _, bins = self._shape
        self.weights: Complex = np.zeros(self._shape, np.complex64)
        prior = np.float32(min(max(gain, _GAINS[0]), _GAINS[1])) * self._shares
        self._p: Real = np.broadcast_to(prior, self._shape).astype(np.float32)
        self._near: Real = np.zeros((mics, bins), np.float32)
        self.uncertainty: Real = np.zeros((mics, bins), np.float32)

    def expected(self, gain: float) -> Real:
        """Power of a path [samples] of this power gain, about, before anything is known of it."""
        expected: Real = np.repeat(self._shares[0, :, 0, 0], self.block) * np.float32(gain / self.block)
        return expected

    def sharpen(self, mic: int, paths: Real, left: float) -> None:
        """Take paths [references, samples] that leave this share of the power of error and uncertainty."""
        self.weights[mic] = self._spectra(paths[None])[0]
        self._p[mic] *= np.float32(left)
        self._near[mic] *= np.float32(left)

    def begin(self, paths: Real) -> None:
        """Take these echo paths [mics, references, samples] for the present ones."""
        self.weights = self._spectra(paths)

    def _spectra(self, paths: Real) -> Complex:
        """[mics, references, samples] -> [mics, partitions, references, bins]"""
        partitions, block = self._shape[1], self.block
        blocks = paths.reshape(*paths.shape[:2], partitions, block).swapaxes(1, 2)
        return np.fft.rfft(blocks, 2 * block).astype(np.complex64)

    def replay(self, past: Real) -> None:
        """What was played before the next block, as it should have been read: [references, samples]."""
        block = self.block
        self._past[:] = past[:, -2 * block :]
        for partition in range(len(self._x)):
            end = past.shape[1] - partition * block
            self._x[partition] = np.fft.rfft(past[:, end - 2 * block : end])

    def impulses(self, weights: Complex | None = None) -> Real:
        """Echo paths as impulse responses [mics, references, samples]: the present, or those of weights."""
        chosen = self.weights if weights is None else weights
        blocks = np.fft.irfft(chosen)[..., : self.block]  # [mics, partitions, references, block]
        paths = np.moveaxis(blocks, 1, 2).reshape(len(blocks), blocks.shape[2], -1)
        return paths.astype(np.float32, copy=False)

    def process(self, mic: Real, reference: Real) -> tuple[Real, Real]:
        """mic float32 [mics, block], reference [references, block] -> (error, echo), both like mic.

        ``uncertainty`` [mics, bins] is then the power of echo that the error is expected to hold.
        """
        block = self.block
        self._past[:, :block] = self._past[:, block:].copy()
        self._past[:, block:] = reference
        self._x[1:] = self._x[:-1].copy()
        self._x[0] = np.fft.rfft(self._past)
        spectrum = np.einsum("prf,mprf->mf", self._x, self.weights)
        echo = np.fft.irfft(spectrum)[:, block:].astype(np.float32)
        error = mic - echo
        self._adapt(error)
        return error, echo

    def _adapt(self, error: Real) -> None:
        padded = np.zeros((len(error), 2 * self.block), np.float32)
        padded[:, self.block :] = error
        spectrum = np.fft.rfft(padded).astype(np.complex64)
        power_x: Real = np.square(self._x.real) + np.square(self._x.imag)
        weighted = power_x[None] * self._p  # [mics, partitions, references, bins]
        self.uncertainty = np.float32(_HALF) * weighted.sum(axis=(1, 2))
        self._track_near_end(spectrum)
        if float(power_x[0].mean()) > 2 * self._noise:
            step = np.float32(1) / (self.uncertainty + self._near + self._noise)
            self._update(step, spectrum, weighted)

    def _track_near_end(self, spectrum: Complex) -> None:
        """Power of all that is no echo: what the error holds beyond what the uncertainty explains."""
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        beyond = np.maximum(power - self.uncertainty, 0)
        keep = np.where(beyond > self._near, np.float32(_RISE), np.float32(_FALL))
        self._near += (np.float32(1) - keep) * (beyond - self._near)

    def _update(self, step: Real, spectrum: Complex, weighted: Real) -> None:
        gain = self._p * np.conj(self._x)[None]
        self.weights += gain * (step * spectrum)[:, None, None]
        self._constrain()
        shrink = 1 - np.float32(_HALF) * weighted * step[:, None, None]
        power_w = np.square(self.weights.real) + np.square(self.weights.imag)
        self._p *= shrink * np.float32(_KEPT**2)
        self._p += power_w * np.float32(1 - _KEPT**2)

    def _constrain(self) -> None:
        """Weights of a partition are the transform of a block and as many zeros (no circular wrap)."""
        impulse = np.fft.irfft(self.weights)
        impulse[..., self.block :] = 0
        self.weights = np.fft.rfft(impulse).astype(np.complex64)
