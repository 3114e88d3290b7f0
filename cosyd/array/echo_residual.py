"""What the adaptive filter leaves of the echo is pressed down, one gain a frequency for all microphones.

Two sources of residual echo are known: the filter's own uncertainty, and a share of the echo that no linear
filter explains (distortion of the loudspeaker, reverberation beyond the filter). That share is the regression
of the error's power on the echo's, frame by frame, which near-end speech does not bias: J.-M. Valin, "On
adjusting the learning rate in frequency domain echo cancellation with double-talk", IEEE TASLP 15 (2007).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float32]

_REMEMBER_S = 1.0  # over which the leaking share is learnt
_SMOOTH_S = 0.02  # of the powers that make the gain
_EXCESS = 2.0  # how much more residual echo is assumed than estimated
_TINY = 1e-12


class ResidualSuppressor:
    """Frames of two hops, square-root Hann before and after, two at a time; the output trails by one hop.

    ``floor_db``: most that is taken away.
    """

    def __init__(self, mics: int, hop: int, rate_hz: int, floor_db: float) -> None:
        self.hop = hop
        bins = hop + 1
        self._window = np.sqrt(np.hanning(2 * hop + 1)[:-1]).astype(np.float32)
        self._floor = np.float32(10 ** (floor_db / 20))
        self._slow = np.float32(1 - np.exp(-2 * hop / (_REMEMBER_S * rate_hz)))
        self._fast = np.float32(1 - np.exp(-2 * hop / (_SMOOTH_S * rate_hz)))
        self._shape = (mics, bins)
        self.reset()

    def reset(self) -> None:
        mics, bins = self._shape
        self._error = np.zeros((mics, self.hop), np.float32)
        self._echo = np.zeros((mics, self.hop), np.float32)
        self._tail = np.zeros((mics, self.hop), np.float32)
        self._mean_error, self._mean_echo, self._covariance, self._variance, self._power, self._residual = (
            np.zeros((6, bins), np.float32)
        )
        self.gain: Real = np.ones(bins, np.float32)

    def process(self, error: Real, echo: Real, uncertainty: Real) -> Real:
        """[mics, 2 hops] of the filter's error and echo -> [mics, 2 hops], one hop later.

        ``uncertainty`` [bins]: power of undone echo in a frame, averaged over the microphones.
        """
        frames = self._analyse(self._error, error)
        played = _power(self._analyse(self._echo, echo))
        heard = _power(frames)
        self._update_gain(heard, uncertainty + self._leak(heard, played) * played)
        shaped = np.fft.irfft(frames * self.gain).astype(np.float32) * self._window
        hop = self.hop
        first = self._tail + shaped[:, 0, :hop]
        second = shaped[:, 0, hop:] + shaped[:, 1, :hop]
        self._tail = shaped[:, 1, hop:].copy()
        joined: Real = np.concatenate([first, second], axis=1)
        return joined

    def _analyse(self, held: Real, new: Real) -> NDArray[np.complexfloating]:
        """Spectra of the two frames that end in the new hops [mics, 2, bins]. ``held``: the hop before."""
        hop = self.hop
        line = np.concatenate([held, new], axis=1)
        held[:] = new[:, hop:]
        frames = np.stack([line[:, : 2 * hop], line[:, hop:]], axis=1)
        return np.fft.rfft(frames * self._window)

    def _leak(self, error: Real, echo: Real) -> Real:
        """Share of the echo's power that comes back in the error, per bin, between 0 and 1."""
        self._mean_error += self._slow * (error - self._mean_error)
        self._mean_echo += self._slow * (echo - self._mean_echo)
        from_mean = echo - self._mean_echo
        self._covariance += self._slow * ((error - self._mean_error) * from_mean - self._covariance)
        self._variance += self._slow * (from_mean * from_mean - self._variance)
        around = np.ones(9, np.float32)  # neighbouring bins leak alike, and more of them tell more
        share = np.convolve(self._covariance, around, "same") / (
            np.convolve(self._variance, around, "same") + _TINY
        )
        clipped: Real = np.clip(share, 0, 1).astype(np.float32)
        return clipped

    def _update_gain(self, error: Real, residual: Real) -> None:
        self._power += self._fast * (error - self._power)
        self._residual += self._fast * (residual - self._residual)
        kept = 1 - _EXCESS * self._residual / (self._power + _TINY)
        self.gain = np.sqrt(np.clip(kept, self._floor**2, 1)).astype(np.float32)


def _power(spectrum: NDArray[np.complexfloating]) -> Real:
    """Mean over microphones and frames [bins]."""
    power: Real = (np.square(spectrum.real) + np.square(spectrum.imag)).mean(axis=(0, 1)).astype(np.float32)
    return power
