"""How much louder and later each microphone is than the others, from ambient noise or a clap.

*Gains*, from noise: on average the same sound reaches all microphones of a small array, so their levels must
be equal. *Delays*, from noise that comes from all around: the average cross-spectrum of two microphones is
then real (a sinc of their distance: R. K. Cook et al., "Measurement of correlation coefficients in
reverberant sound fields", JASA 27, 1955), and what turns its phase is a delay of the channels. Delays from
claps in a known direction: what the direct sound is late beyond what the geometry says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.array.geometry import Geometry, angles, unit, wrap
from cosyd.array.health_order import arrivals
from cosyd.config.arrays import SPEED_OF_SOUND
from cosyd.errors import CosydError

Frames = NDArray[np.float32]  # [n, microphones]
Numbers = NDArray[np.floating[Any]]

LEAST_S = 5.0  # of noise; levels of shorter stretches are chance
_SEGMENT = 2_048  # samples of a spectrum at 16 kHz
_LOW_HZ, _HIGH_HZ = 200.0, 4_000.0  # where microphones are matched and rooms are loud
_LOUD_DB = 12.0  # segments that much above the quietest tenth are somebody, not the room
_LEAST_DB = -85.0  # less than this is no ambient noise but the converter's
_LEAST_BINS = 8  # of a coherence that a delay is read off
_DIFFUSE = 0.25  # mean departure from a diffuse field's coherence from which it is not one
_CLAP_DB = 20.0  # above the recording's median, that a clap is
_CLAP_APART_S = 0.3
_BEFORE_S, _AFTER_S = 0.002, 0.008  # of the direct sound, before the first strong reflections
_EXPLAINED_S = 10e-6  # residual of arrivals that a direction explains; claps are measured to a few µs
_TURNED_DEG = 20.0  # by which the clap seems to come from elsewhere, that is no inaccuracy


@dataclass(frozen=True)
class Calibration:
    """``gains_db``: to be added, ``delays_us``: by how much each channel is late; None where not found out.

    ``notes``: what else was noticed, for people.
    """

    gains_db: tuple[float, ...]
    delays_us: tuple[float, ...] | None
    notes: tuple[str, ...] = ()


def from_noise(frames: Frames, geometry: Geometry, rate_hz: int) -> Calibration:
    """From at least LEAST_S of a room in which nobody speaks. Raises CosydError for what is no such thing."""
    spectra = _quiet_spectra(frames, rate_hz)
    frequency = np.fft.rfftfreq(2 * (spectra.shape[1] - 1), 1 / rate_hz)
    gains = _gains(spectra, frequency)
    delays, misfit = _diffuse_delays(spectra, frequency, geometry)
    if misfit > _DIFFUSE:
        note = (
            "the noise comes from one side, or the microphones are far apart, so it tells no delays; clap: "
            "cosyd array calibrate --from DEG"
        )
        return Calibration(gains, None, (note,))
    return Calibration(gains, tuple(round(float(d) * 1e6, 1) for d in delays))


def _quiet_spectra(frames: Frames, rate_hz: int) -> NDArray[np.complex128]:
    """Spectra [segments, bins, microphones] of the segments in which it is quiet."""
    if len(frames) < LEAST_S * rate_hz:
        raise CosydError(
            f"{len(frames) / rate_hz:.1f} s of sound tell nothing; at least {LEAST_S:g} s are needed"
        )
    size = _SEGMENT * rate_hz // 16_000
    count = len(frames) // size
    segments = frames[: count * size].reshape(count, size, -1).astype(np.float64)
    segments -= segments.mean(axis=1, keepdims=True)
    level = 10 * np.log10(np.square(segments).mean(axis=(1, 2)) + 1e-20)
    quiet = level < np.quantile(level, 0.1) + _LOUD_DB
    if np.median(level[quiet]) < _LEAST_DB:
        raise CosydError("there is no sound to calibrate with; is the input muted? see: cosyd level")
    return np.asarray(np.fft.rfft(segments[quiet] * np.hanning(size)[None, :, None], axis=1))


def _gains(spectra: NDArray[np.complex128], frequency: Numbers) -> tuple[float, ...]:
    band = (frequency >= _LOW_HZ) & (frequency <= _HIGH_HZ)
    power = np.square(np.abs(spectra[:, band])).mean(axis=(0, 1))
    if power.min() <= 0:
        raise CosydError(f"microphone {int(power.argmin())} is silent; see: cosyd doctor")
    level = 10 * np.log10(power)
    return tuple(round(float(gain), 1) for gain in np.median(level) - level)


def _diffuse_delays(
    spectra: NDArray[np.complex128], frequency: Numbers, geometry: Geometry
) -> tuple[NDArray[np.float64], float]:
    """Seconds by which each channel is late (their median is 0), and how far from diffuse the field is."""
    power = np.square(np.abs(spectra)).mean(axis=0)
    estimates, misfits, pairs = [], [], []
    for i, j in geometry.pairs:
        distance = float(np.linalg.norm(geometry.centred[i] - geometry.centred[j]))
        # Below c / 2d the sinc is positive, and is what remains of the coherence once the delay is undone.
        used = (frequency >= _LOW_HZ) & (frequency <= min(_HIGH_HZ, SPEED_OF_SOUND / (2 * distance)))
        if used.sum() < _LEAST_BINS:  # too far apart: their noises have nothing in common
            continue
        pairs.append((i, j))
        cross = (spectra[:, used, j] * np.conj(spectra[:, used, i])).mean(axis=0)
        coherence = cross / np.sqrt(power[used, i] * power[used, j])
        model = np.sinc(2 * frequency[used] * distance / SPEED_OF_SOUND)
        late = _slope(coherence * model, frequency[used])
        estimates.append(late)
        undone = coherence * np.exp(2j * np.pi * frequency[used] * late)
        misfits.append(float(np.abs(undone - model).mean()))
    matrix = np.zeros((len(pairs), geometry.microphones))
    for row, (i, j) in enumerate(pairs):
        matrix[row, i], matrix[row, j] = -1, 1
    if not pairs or np.linalg.matrix_rank(matrix) < geometry.microphones - 1:
        return np.zeros(geometry.microphones), np.inf
    delays = np.linalg.lstsq(matrix, np.array(estimates), rcond=None)[0]
    return delays - np.median(delays), float(np.median(misfits))


def _slope(cross: NDArray[np.complex128], frequency: Numbers) -> float:
    """Delay in seconds that turns these phases: the best on a grid, refined by the phases that remain."""
    grid = np.arange(-5e-3, 5e-3, 1e-5)
    turned = np.exp(2j * np.pi * np.outer(grid, frequency)) @ cross
    late = float(grid[int(turned.real.argmax())])
    rest = np.angle(cross * np.exp(2j * np.pi * frequency * late))
    weight = np.abs(cross) * frequency
    return late - float((weight * rest).sum() / (2 * np.pi * (weight * frequency).sum()))


# --- claps ---------------------------------------------------------------------------------------------


def from_claps(frames: Frames, geometry: Geometry, rate_hz: int, azimuth_deg: float) -> Calibration:
    """Delays from claps, metres away in this direction of the room and at the array's height; gains likewise.

    Claps that plainly come from elsewhere tell no delays: those would bend the array to a wrong direction.
    Raises CosydError where no clap is clear.
    """
    windows = _claps(frames, rate_hz)
    heard = [
        (window, times) for window in windows if (times := arrivals(window, geometry, rate_hz)) is not None
    ]
    if not heard:
        raise CosydError(
            f"{len(windows)} loud sounds, none of them a clear clap; clap sharply, a few times, 1 to 3 m away"
        )
    measured = np.median([times for _, times in heard], axis=0)
    leads = geometry.leads(np.atleast_2d(unit(geometry.in_device(azimuth_deg))))[0]
    late = measured + leads
    late -= np.median(late)
    power = np.median([np.square(window, dtype=np.float64).mean(axis=0) for window, _ in heard], axis=0)
    level = 10 * np.log10(power + 1e-20)
    turned = _turned(measured, geometry, azimuth_deg)
    return Calibration(
        tuple(round(float(gain), 1) for gain in np.median(level) - level),
        None if turned else tuple(round(float(delay) * 1e6, 1) for delay in late),
        (f"{len(heard)} claps", *turned),
    )


def _claps(frames: Frames, rate_hz: int) -> list[Frames]:
    """The direct sound of each clap [n, microphones]."""
    step = round(0.001 * rate_hz)
    count = len(frames) // step
    energy = np.square(frames[: count * step], dtype=np.float64).reshape(count, -1).mean(axis=1)
    level = 10 * np.log10(energy + 1e-20)
    loud = np.flatnonzero(level > max(np.median(level) + _CLAP_DB, level.max() - _CLAP_DB))
    starts: list[int] = []
    for at in loud:
        if not starts or (at - starts[-1]) * step > _CLAP_APART_S * rate_hz:
            starts.append(int(at))
    before, after = round(_BEFORE_S * rate_hz), round(_AFTER_S * rate_hz)
    whole = [at * step for at in starts if before <= at * step <= len(frames) - after]
    return [frames[at - before : at + after] for at in whole]


def _turned(measured: NDArray[np.float64], geometry: Geometry, azimuth_deg: float) -> Sequence[str]:
    """Whether the array hears it from elsewhere: channels in another order, or another orientation."""
    directions = unit(np.arange(0.0, 360.0, 1.0))
    expected = -geometry.leads(directions)
    misfit = measured[None] - expected
    misfit -= misfit.mean(axis=1, keepdims=True)
    residual = np.sqrt(np.square(misfit).mean(axis=1))
    best = int(residual.argmin())
    seems = geometry.in_room(angles(directions[best])[0])
    if len(geometry.axes) < 2 or abs(wrap(seems - azimuth_deg)) < _TURNED_DEG:
        return ()
    if residual[best] > _EXPLAINED_S:  # no direction explains it: channels that are late
        return ()
    right = wrap(geometry.orientation_deg + azimuth_deg - seems)
    return (
        f"it seems to come from {seems:.0f}°, not {azimuth_deg:.0f}°: the channels are rotated, or "
        f"orientation_deg should be {right:.0f}; mend that first",
    )
