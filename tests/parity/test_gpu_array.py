"""The array kernels against their float64 references, rows in any order of slots."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.gpu.driver import Gpu
from cosyd.gpu.reference import arrays

BINS, FIRST, USED = 129, 8, 97
HEADER = 16
CAPACITY, SLOTS = 4, 6
ROWS = np.array([5, 0, 3])  # the slot of each row


def header() -> np.ndarray:
    values = np.zeros(HEADER + 7 * CAPACITY, np.int32)
    values[0] = len(ROWS)
    values[HEADER : HEADER + len(ROWS)] = ROWS
    return values


def complex_noise(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def floats(values: np.ndarray) -> np.ndarray:
    """complex64 [...] as float32 [..., 2], as the kernels see it."""
    return np.ascontiguousarray(values.astype(np.complex64)).view(np.float32).reshape(*values.shape, 2)


@pytest.mark.parametrize("mics", [2, 4, 8, 16])
@pytest.mark.parametrize("directions", [61, 120, 573])
def test_steered_power(gpu: Gpu, mics: int, directions: int) -> None:
    rng = np.random.default_rng(mics)
    table = np.exp(2j * np.pi * rng.uniform(0, 1, (USED, mics, directions))).astype(np.complex64)
    noise = rng.uniform(-1, 1, (SLOTS, USED, directions)).astype(np.float32)
    power, weight = np.zeros((SLOTS, directions)), np.zeros(SLOTS)
    head, on_table, on_noise = gpu.upload(header()), gpu.upload(floats(table)), gpu.upload(noise)
    on_power, on_weight = gpu.array((SLOTS, directions)), gpu.array((SLOTS,))
    out = gpu.array((CAPACITY, directions))
    for hop in range(3):
        spectra = complex_noise(rng, CAPACITY, mics, BINS)
        share = rng.uniform(0, 1, (CAPACITY, BINS)).astype(np.float32)
        arguments = (
            head, np.int32(CAPACITY), gpu.upload(floats(spectra)), gpu.upload(share), on_table, on_noise,
            np.int32(mics), np.int32(BINS), np.int32(FIRST), np.int32(USED), np.int32(directions),
            np.float32(0.9), on_power, on_weight, out,
        )  # fmt: skip
        gpu.launch("srp_phat", "srp_phat", (CAPACITY,), 128, *arguments, shared=mics * USED * 8 + USED * 4)
        found = out.get()
        for row, slot in enumerate(ROWS):
            band = slice(FIRST, FIRST + USED)
            added, heard = arrays.srp_phat(spectra[row][:, band], share[row, band], table, noise[slot])
            power[slot] = np.float32(0.9) * power[slot] + added
            weight[slot] = np.float32(0.9) * weight[slot] + heard
            assert found[row] == pytest.approx(power[slot] / weight[slot], abs=2e-5), hop


@pytest.mark.parametrize("mics", [2, 4, 8, 16])
def test_beam(gpu: Gpu, mics: int) -> None:
    rng = np.random.default_rng(mics)
    head = gpu.upload(header())
    on_noise, on_heard = gpu.array((SLOTS, BINS, mics, mics, 2)), gpu.array((SLOTS, BINS))
    noise, heard = np.zeros((SLOTS, BINS, mics, mics), np.complex128), np.zeros((SLOTS, BINS))
    grid, sizes = ((BINS + 127) // 128, CAPACITY), (np.int32(mics), np.int32(BINS))
    for _ in range(2 * mics):
        spectra = complex_noise(rng, CAPACITY, mics, BINS)
        share = rng.uniform(0, 1, (CAPACITY, BINS)).astype(np.float32)
        on_spectra = gpu.upload(floats(spectra))
        arguments = (head, np.int32(CAPACITY), on_spectra, gpu.upload(share), *sizes)
        gpu.launch("beamform", "beam_noise", grid, 128, *arguments, np.float32(0.98), on_noise, on_heard)
        for row, slot in enumerate(ROWS):
            noise[slot], heard[slot] = arrays.beam_noise(
                noise[slot], heard[slot], spectra[row], share[row], np.float32(0.98)
            )
    learned = on_noise.get().view(np.complex64)[..., 0]
    assert learned[ROWS] == pytest.approx(noise[ROWS], rel=1e-4, abs=1e-4)
    assumed = np.tile(np.eye(mics, dtype=np.complex64), (BINS, 1, 1))
    steering = np.exp(2j * np.pi * rng.uniform(0, 1, (CAPACITY, BINS, mics))).astype(np.complex64)
    following = gpu.array((SLOTS, BINS, mics, 2))
    gpu.launch(
        "beamform", "beam_weights", (BINS, CAPACITY), 32, head, np.int32(CAPACITY), on_noise, on_heard,
        gpu.upload(floats(assumed)), gpu.upload(floats(steering)), *sizes, np.float32(31.25),
        np.float32(0.01), following,
    )  # fmt: skip
    weights = following.get().view(np.complex64)[..., 0]
    now, out = gpu.array((SLOTS, BINS, mics, 2)), gpu.array((CAPACITY, BINS, 2))
    gpu.launch(
        "beamform", "beam_apply", grid, 128, head, np.int32(CAPACITY), on_spectra, now, following, *sizes,
        np.float32(0.5), out,
    )  # fmt: skip
    heard_out = out.get().view(np.complex64)[..., 0]
    for row, slot in enumerate(ROWS):
        expected = arrays.beam_weights(noise[slot], heard[slot], assumed, steering[row], 31.25, 0.01)
        assert weights[slot] == pytest.approx(expected, rel=1e-3, abs=1e-4)
        response = np.einsum("fm,fm->f", weights[slot].conj(), steering[row])
        assert response == pytest.approx(np.ones(BINS), abs=1e-5)
        y = arrays.beam_apply(spectra[row], np.zeros((BINS, mics)), expected, 0.5)
        assert heard_out[row] == pytest.approx(y, rel=1e-3, abs=1e-4)
