"""What the adaptive filter leaves of the echo is pressed down, one gain a frequency for all microphones.

Three sources of residual echo are known: the filter's own uncertainty; a share of the echo that no linear
filter explains, at its own frequency (reverberation beyond the filter); and one that comes from the echo at
all frequencies (distortion of the loudspeaker). The shares are the regression of the error's power on the
echo's, frame by frame, which near-end speech does not bias: J.-M. Valin, "On adjusting the learning rate in
frequency domain echo cancellation with double-talk", IEEE TASLP 15 (2007).

Words are lost to a gain that falls within them sooner than to what is left of the echo. So what is left is
pressed down while there is nothing else, and passes as soon as somebody speaks, and for a while after: until
a word would surely have gone on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float32]

_REMEMBER_S = 1.0  # over which the leaking shares are learnt ...
_BESIDE = 0.1  # ... while nobody speaks; at this part of the pace while somebody does
_SMOOTH_S = 0.02  # of the powers that make the gain
_EXCESS = 8.0  # how much more residual echo is assumed than estimated: nothing of it is to be heard
_STANDS_OUT = 10.0  # of the residual echo: so much power in a band holds something else
_NOBODY, _SOMEBODY = 0.3, 0.6  # share of the error's power that stands out where nobody, somebody speaks
_HOLD_S = 0.7  # for which somebody is taken to speak on: shorter holds lost weak ends of words
_LINGER_S = 0.15  # in which that is given up then
_LOW_HZ, _HIGH_HZ, _BAND_HZ = 200.0, 5_000.0, 400.0  # where there is speech
_AROUND = np.ones(9, np.float32)  # neighbouring bins leak alike, and more of them tell more
_TINY = 1e-12


class ResidualSuppressor:
    """Frames of two hops, square-root Hann before and after, two at a time; the output trails by one hop.

    ``floor_db``: most that is taken away, negative. ``somebody``: from 0 to 1, whether somebody speaks.
    """

    def __init__(self, mics: int, hop: int, rate_hz: int, floor_db: float) -> None:
        self.hop = hop
        bins = hop + 1
        self._window = np.sqrt(np.hanning(2 * hop + 1)[:-1]).astype(np.float32)
        self._floor_db = floor_db
        self._slow = float(1 - np.exp(-2 * hop / (_REMEMBER_S * rate_hz)))
        self._fast = np.float32(1 - np.exp(-2 * hop / (_SMOOTH_S * rate_hz)))
        self._linger = float(np.exp(-2 * hop / (_LINGER_S * rate_hz)))
        self._hold = round(_HOLD_S * rate_hz / (2 * hop))
        frequency = np.fft.rfftfreq(2 * hop, 1 / rate_hz)
        edges = np.arange(_LOW_HZ, _HIGH_HZ + 1, _BAND_HZ)
        self._bands = ((frequency >= edges[:-1, None]) & (frequency < edges[1:, None])).astype(np.float32)
        self._shape = (mics, bins)
        self.reset()

    def reset(self) -> None:
        mics, bins = self._shape
        self._error = np.zeros((mics, self.hop), np.float32)
        self._echo = np.zeros((mics, self.hop), np.float32)
        self._tail = np.zeros((mics, self.hop), np.float32)
        self._same, self._spread = _Regression(bins), _Regression(bins)
        self._power, self._residual = np.zeros((2, bins), np.float32)
        self._age = self._held = 0
        self.somebody = 0.0
        self.gain: Real = np.ones(bins, np.float32)

    def process(self, error: Real, echo: Real, uncertainty: Real) -> Real:
        """[mics, 2 hops] of the filter's error and echo -> [mics, 2 hops], one hop later.

        ``uncertainty`` [bins]: power of undone echo in a frame, averaged over the microphones.
        """
        frames = self._analyse(self._error, error)
        played = _power(self._analyse(self._echo, echo))
        heard = _power(frames)
        self._update_gain(heard, uncertainty + self._leak(heard, played))
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

    def _leak(self, heard: Real, played: Real) -> Real:
        """Power of the echo that the filter does not know of [bins]."""
        self._age += 1
        slowly = self._slow * (1 - (1 - _BESIDE) * self.somebody)
        pace = np.float32(max(slowly, 1 / self._age))
        everywhere = np.full_like(played, played.mean())
        same = self._same.share(heard, played, pace) * played
        spread = self._spread.share(heard, everywhere, pace) * everywhere
        return np.asarray(np.maximum(same, spread))

    def _update_gain(self, error: Real, residual: Real) -> None:
        self._power += self._fast * (error - self._power)
        self._residual += self._fast * (residual - self._residual)
        self._look_for_somebody()
        lowest = 10 ** (self._floor_db * (1 - self.somebody) / 10)
        kept = 1 - _EXCESS * self._residual / (self._power + _TINY)
        self.gain = np.sqrt(np.clip(kept, lowest, 1)).astype(np.float32)

    def _look_for_somebody(self) -> None:
        """Whether more is heard than residual echo: believed at once, and given up slowly."""
        power, residual = self._bands @ self._power, self._bands @ self._residual
        beyond = float(np.maximum(power - _STANDS_OUT * residual, 0).sum())
        share = beyond / (float(power.sum()) + _TINY)
        now = min(max((share - _NOBODY) / (_SOMEBODY - _NOBODY), 0.0), 1.0)
        if now >= self.somebody:
            self.somebody, self._held = now, self._hold
        elif self._held:
            self._held -= 1
        else:
            self.somebody = max(now, self.somebody * self._linger)


class _Regression:
    """Of one power on another, frame by frame, for each bin."""

    def __init__(self, bins: int) -> None:
        self._mean_error, self._mean_echo, self._covariance, self._variance = np.zeros((4, bins), np.float32)

    def share(self, error: Real, echo: Real, pace: np.float32) -> Real:
        """[bins] of the echo's power what comes back in the error, 0..1; with a frame more of both."""
        self._mean_error += pace * (error - self._mean_error)
        self._mean_echo += pace * (echo - self._mean_echo)
        from_mean = echo - self._mean_echo
        self._covariance += pace * ((error - self._mean_error) * from_mean - self._covariance)
        self._variance += pace * (from_mean * from_mean - self._variance)
        covariance = np.convolve(self._covariance, _AROUND, "same")
        variance = np.convolve(self._variance, _AROUND, "same")
        clipped: Real = np.clip(covariance / (variance + _TINY), 0, 1).astype(np.float32)
        return clipped


def _power(spectrum: NDArray[np.complexfloating]) -> Real:
    """Mean over microphones and frames [bins]."""
    power: Real = (np.square(spectrum.real) + np.square(spectrum.imag)).mean(axis=(0, 1)).astype(np.float32)
    return power
