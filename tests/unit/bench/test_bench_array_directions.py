"""Peers of ``bench array``: what they are asked, whatever the VAD found."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.array.stft import Analysis
from cosyd.bench.array_directions import PEERS, Errors, _geometry, _peer
from cosyd.spec import FRAME

pytest.importorskip("pyroomacoustics")
BEFORE, SECOND = 20.0, FRAME.rate_hz


def heard(azimuth_deg: float) -> np.ndarray:
    """A second of noise as a plane wave from there, spectra as the benchmark's."""
    geometry = _geometry("square-4")
    towards = np.array([np.cos(np.radians(azimuth_deg)), np.sin(np.radians(azimuth_deg)), 0.0])
    delay_s = -(geometry.centred @ towards) / 343.0
    noise = np.fft.rfft(np.random.default_rng(0).standard_normal(SECOND))
    turned = noise * np.exp(-2j * np.pi * np.fft.rfftfreq(SECOND, 1 / FRAME.rate_hz) * delay_s[:, None])
    frames = np.fft.irfft(turned, SECOND).astype(np.float32)[:, : SECOND // FRAME.block * FRAME.block]
    return Analysis(geometry.microphones)(np.ascontiguousarray(frames))


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_finds_a_plane_wave(peer: str) -> None:
    errors = Errors()
    _peer(errors, peer, peer, _geometry("square-4"), heard(BEFORE), BEFORE)
    assert errors.median(peer) <= 3


@pytest.mark.parametrize("peer", PEERS)
def test_where_the_vad_heard_nobody_a_peer_found_nobody_either(peer: str) -> None:
    errors = Errors()
    _peer(errors, peer, peer, _geometry("square-4"), heard(BEFORE)[:0], BEFORE)
    assert errors.median(peer) == 180 and errors.gross(peer) == 100
