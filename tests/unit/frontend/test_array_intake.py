"""Streams from microphone arrays in the front end: the clock is exact, others are not touched."""

from __future__ import annotations

import numpy as np
import pytest
from front_end_fakes import BlockByBlock

from cosyd.config.schema import ArrayConfig, FrontendConfig
from cosyd.errors import UnsupportedFormat
from cosyd.frontend.front_end import FrontEnd
from cosyd.frontend.stage import Samples, Slots
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import Backend

START = 1_000_003  # sample at which the stream begins
SLOTS = 3


class Late:
    """A denoiser that changes nothing, ``delay`` samples late."""

    delay = FRAME.window - FRAME.hop
    backend = Backend("fake", "test")

    def __init__(self) -> None:
        self._kept = np.zeros((SLOTS, self.delay), np.float32)

    def reset(self, slots: Slots) -> None:
        self._kept[slots] = 0

    def process(self, slots: Slots, x: Samples) -> Samples:
        line = np.concatenate((self._kept[slots], x), axis=1)
        self._kept[slots] = line[:, x.shape[1] :]
        return line[:, : x.shape[1]]


class Always(BlockByBlock):
    """A VAD that hears speech in everything."""

    delay = 0
    backend = Backend("fake", "test")

    def reset(self, slots: Slots) -> None:
        pass

    def process(self, slots: Slots, x: Samples) -> Samples:
        return np.full(len(x), 0.9, np.float32)


def front_end(denoise: bool) -> FrontEnd:
    config = FrontendConfig(remove_dc=False, denoise="dtln" if denoise else "off", max_streams=SLOTS)
    return FrontEnd(config, Always(), Late() if denoise else None, SLOTS)


def run(
    front: FrontEnd, slot: int, frames: np.ndarray, piece: int
) -> tuple[np.ndarray, np.ndarray, list[object]]:
    """Clocks of the blocks, their audio, their voices."""
    clocks, audio, voices = [], [], []
    front.restart(slot, START)
    done = 0
    while True:
        done += front.push(slot, frames[done : done + piece], START + done)
        if done == len(frames):
            front.flush(slot)
        while (batch := front.step()) is not None:
            clocks.append(int(batch.samples[0]))
            audio.append(batch.asr[0])
            voices.append(batch.voices[slot])
        if done == len(frames):
            return np.array(clocks), np.concatenate(audio), voices


@pytest.mark.parametrize("rate_hz", [16_000, 48_000])
@pytest.mark.parametrize("denoise", [False, True])
@pytest.mark.parametrize("beamformer", ["off", "delay-sum"])
def test_what_comes_out_has_the_time_at_which_it_was_captured(
    rate_hz: int, denoise: bool, beamformer: str
) -> None:
    """The same smooth signal at all microphones, so that all beams pass it: it keeps its place."""
    ratio = rate_hz // FRAME.rate_hz
    n = 20 * FRAME.block * ratio
    signal = np.convolve(np.random.default_rng(0).standard_normal(n), np.hanning(41), "same")
    frames = np.repeat((0.01 * signal).astype(np.float32)[:, None], 4, axis=1)
    # Straight above, so that no microphone is before another.
    array = ArrayConfig(geometry="square-4", beamformer=beamformer, steer="fixed", elevation_deg=90.0)
    front = front_end(denoise)
    slot = front.open(AudioSpec(rate_hz, 4, SampleFormat.F32), array=array)
    clocks, audio, _ = run(front, slot, frames, 4_321)
    assert clocks[0] == START
    assert np.array_equal(clocks, START + np.arange(len(clocks)) * FRAME.block * ratio)
    assert len(audio) >= n // ratio
    expected = frames[::ratio, 0]
    inside = slice(600, n // ratio - 600)
    assert audio[inside] == pytest.approx(expected[inside], abs=2e-3 * float(np.abs(expected).max()))


def test_the_bits_do_not_depend_on_how_the_stream_is_cut() -> None:
    rng = np.random.default_rng(1)
    frames = (3_000 * rng.standard_normal((30 * FRAME.block, 4))).astype(np.int16)
    results = []
    for piece in (512, 777, 20_000):
        front = front_end(denoise=True)
        slot = front.open(AudioSpec(16_000, 4, SampleFormat.S16), array=ArrayConfig(geometry="square-4"))
        results.append(run(front, slot, frames, piece))
    for clocks, audio, voices in results[1:]:
        assert np.array_equal(clocks, results[0][0])
        assert np.array_equal(audio, results[0][1])
        assert voices == results[0][2]


def test_a_neighbour_is_as_if_alone() -> None:
    """A plain stream gives the same bits whether or not there is an array beside it."""
    rng = np.random.default_rng(2)
    mono = rng.standard_normal((8 * FRAME.block, 1)).astype(np.float32)
    results = []
    for beside in (False, True):
        front = front_end(denoise=True)
        plain = front.open(AudioSpec(16_000, 1, SampleFormat.F32))
        front.restart(plain, 0)
        if beside:
            other = front.open(AudioSpec(16_000, 4, SampleFormat.F32), array=ArrayConfig(geometry="square-4"))
            front.push(other, np.repeat(mono, 4, axis=1), 0)
        front.push(plain, mono, 0)
        found = []
        while (batch := front.step()) is not None:
            found += [batch.asr[row] for row, slot in enumerate(batch.slots) if slot == plain]
            assert plain not in batch.voices
        results.append(np.concatenate(found))
    assert np.array_equal(results[0], results[1])


def test_a_device_without_the_channels_is_refused_and_takes_no_slot() -> None:
    front = front_end(denoise=False)
    spec = AudioSpec(16_000, 4, SampleFormat.F32)
    with pytest.raises(UnsupportedFormat, match="channel 4 is mapped"):
        front.open(spec, array=ArrayConfig(geometry="respeaker-4"))
    assert front.open(spec) == 0


def test_nan_is_counted_and_becomes_0() -> None:
    front = front_end(denoise=False)
    slot = front.open(AudioSpec(16_000, 4, SampleFormat.F32), array=ArrayConfig(geometry="square-4"))
    frames = np.zeros((2 * FRAME.block, 4), np.float32)
    frames[5, 2] = np.nan
    _, audio, _ = run(front, slot, frames, 512)
    assert front.statistics(slot).nonfinite == 1
    assert np.isfinite(audio).all()
