"""Speech-like sounds, rooms and an echo for the tests of the echo canceller; everything is seeded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve, lfilter

from cosyd.array.echo import EchoCanceller
from cosyd.spec import FRAME

RATE = 16_000
Real = NDArray[np.float32]


def babble(seconds: float, seed: int, level: float = 0.08) -> Real:
    """Noise with the spectrum and the syllables of speech, mean square ``level`` squared."""
    random = np.random.default_rng(seed)
    n = round(seconds * RATE)
    voiced = lfilter([1.0], [1.0, -0.9], random.standard_normal(n))
    syllables = np.repeat(random.uniform(0.05, 1.0, n // 2400 + 1), 2400)[:n]
    sound = voiced * lfilter([0.01], [1, -0.99], syllables)
    return (sound * level / np.sqrt(np.mean(sound**2))).astype(np.float32)


def room(seed: int, rt60_s: float = 0.3, direct: int = 40, mics: int = 1) -> Real:
    """Impulse responses [mics, samples]: a direct path, then noise that decays."""
    random = np.random.default_rng(seed)
    n = round(rt60_s * RATE)
    tail = random.standard_normal((mics, n)) * np.exp(-6.9 * np.arange(n) / n)
    tail *= 0.7 / np.sqrt(np.sum(tail**2, axis=1, keepdims=True))
    paths = np.zeros((mics, direct + n))
    paths[:, direct:] = tail
    paths[np.arange(mics), direct + np.arange(mics)] += 1
    return (0.5 * paths).astype(np.float32)


def through(sound: Real, paths: Real) -> Real:
    """``sound`` [n] at each microphone [mics, n]."""
    return np.stack([fftconvolve(sound, path)[: len(sound)] for path in paths]).astype(np.float32)


def hiss(shape: tuple[int, ...], seed: int = 99, db: float = -75.0) -> Real:
    """The microphones' own noise."""
    return (10 ** (db / 20) * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def decibels(wanted: Real, other: Real) -> float:
    """Power of ``wanted`` over that of ``other``."""
    return float(10 * np.log10(np.mean(np.square(wanted)) / (np.mean(np.square(other)) + 1e-20)))


def cancel(canceller: EchoCanceller, mic: Real, reference: Real, piece: int = FRAME.block) -> Real:
    """What comes out, moved back by the canceller's delay and so much shorter than what went in."""
    rows = np.concatenate([np.atleast_2d(mic), np.atleast_2d(reference)])
    whole = rows.shape[1] // FRAME.hop * FRAME.hop
    out = [canceller.process(rows[:, at : min(at + piece, whole)]) for at in range(0, whole, piece)]
    return np.concatenate(out, axis=1)[:, canceller.delay :]


def erle(echo: Real, out: Real, from_s: float, to_s: float) -> float:
    part = slice(round(from_s * RATE), round(to_s * RATE))
    return decibels(echo[..., part], out[..., part])
