"""An echo path by least squares of what was lately heard on what was played: where the filter goes on from.

A Kalman filter in blocks takes each frequency for itself and needs some seconds of speech to learn a path.
All that was heard in a second, at once, tells more: the path that explains it, and departs from what was
thought before where paths are loud rather than where they are not. A few steps of conjugate gradients get
there, and stop before what is no echo is explained too: M. Hestenes and E. Stiefel, "Methods of conjugate
gradients for solving linear systems", J. Res. NBS 49 (1952). Both sides are whitened by the spectrum of what
was played: that of speech is so uneven that many more steps would be needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float32]
Spectra = NDArray[np.complexfloating]

_STEPS = 8  # of conjugate gradients; with 15 a path learnt from half a second serves the next second worse
_NOISE = 1e-2  # of what was heard, that is no echo
_SMOOTH = 128  # bins over which the spectrum that whitens is averaged; its filter is then EDGE long
_FLOOR = 1e-2  # of the mean power: weaker frequencies are not lifted, they hold noise
EDGE = 512  # samples at either end that are not looked at: the whitening mixes them with what lies beyond


def refined(paths: Real, heard: Real, played: Real, decay: Real) -> tuple[Real, float]:
    """Better ``paths`` [mics, references, taps] than these, and what share of the error's power they leave.

    ``heard`` [mics, n]; ``played`` [references, taps + n], from ``taps`` samples before on; ``decay`` [taps]:
    power that a path is expected to have, to which its changes are in proportion. n is beyond 2 * ``EDGE``.
    """
    problem = _Problem(heard, played, decay)
    rest = problem.heard - problem.echo(paths)
    better = paths + problem.solve(rest)
    after = problem.heard - problem.echo(better)
    before = float(np.square(rest).sum())
    return better, float(np.square(after).sum()) / before if before else 1.0


class _Problem:
    """``heard`` = ``echo`` of the path and more; all whitened, [mics, n], silent at its edges."""

    def __init__(self, heard: Real, played: Real, decay: Real) -> None:
        self._taps, self._count = len(decay), heard.shape[1]
        self._scale = np.sqrt(decay).astype(np.float32)
        self._size = 1 << (played.shape[1] - 1).bit_length()
        self._inside = np.zeros(self._count, np.float32)
        self._inside[EDGE:-EDGE] = 1
        spectrum = np.fft.rfft(played, self._size)
        white = _whitening(spectrum)
        self._played = (spectrum * white).astype(np.complex64)
        self.heard = self._late(self._spectra(heard) * white)

    def echo(self, paths: Real) -> Real:
        """[mics, references, taps] -> [mics, n]"""
        return self._late((np.fft.rfft(paths, self._size) * self._played).sum(axis=1))

    def solve(self, rest: Real) -> Real:
        """The change of the paths that explains ``rest`` [mics, n]."""
        noise = _NOISE * np.square(self.heard).mean(axis=1)[:, None, None]
        found = np.zeros((len(rest), len(self._played), self._taps), np.float32)
        residual = self._adjoint(rest)
        direction, power = residual, _energy(residual, residual)
        for _ in range(_STEPS):
            image = self._adjoint(self.echo(direction * self._scale)) + noise * direction
            pace = _ratio(power, _energy(direction, image))
            found = found + pace * direction
            residual = residual - pace * image
            before, power = power, _energy(residual, residual)
            direction = residual + _ratio(power, before) * direction
        return np.asarray(found * self._scale, np.float32)

    def _adjoint(self, error: Real) -> Real:
        """[mics, n] -> [mics, references, taps], in units of the expected amplitude."""
        spectra = self._spectra(error)[:, None] * np.conj(self._played)
        return np.asarray(np.fft.irfft(spectra, self._size)[..., : self._taps] * self._scale, np.float32)

    def _spectra(self, rows: Real) -> Spectra:
        """Of [mics, n] at its place behind the ``taps`` samples before."""
        return np.fft.rfft(np.pad(rows, ((0, 0), (self._taps, 0))), self._size)

    def _late(self, spectra: Spectra) -> Real:
        whole = np.fft.irfft(spectra, self._size)[:, self._taps : self._taps + self._count]
        return np.asarray(whole * self._inside, np.float32)


def _energy(a: Real, b: Real) -> Real:
    """Inner product of each microphone's."""
    return np.asarray(np.einsum("mrt,mrt->m", a, b)[:, None, None])


def _ratio(a: Real, b: Real) -> Real:
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 0))


def _whitening(spectrum: Spectra) -> Real:
    power = (np.square(spectrum.real) + np.square(spectrum.imag)).mean(axis=0)
    smooth = np.convolve(power, np.ones(_SMOOTH) / _SMOOTH, "same")
    floor = _FLOOR * float(smooth.mean())
    return np.asarray(1 / np.sqrt(smooth + floor), np.float32) if floor else np.ones_like(smooth, np.float32)
