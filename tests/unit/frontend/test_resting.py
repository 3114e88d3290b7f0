"""The denoiser rests in silence, is awake for speech, and does not forget in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from front_end_fakes import BlockByBlock
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.config.schema import FrontendConfig
from cosyd.frontend.contract import FrontBatch
from cosyd.frontend.factory import make_front_end
from cosyd.frontend.filters import Delay
from cosyd.frontend.front_end import FrontEnd
from cosyd.frontend.resting import REST_AFTER, WAKE_PROB, WARM_UP
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import Backend

MONO_16K = AudioSpec(16_000, 1, SampleFormat.F32)
DELAY = 384
LOUD, SOFT = 0.5, 0.01
BATCH = 4


class PeakVad(BlockByBlock):
    """Not a VAD: the peak of a block is its probability."""

    backend = Backend("fake", "for tests")
    delay = 0

    def reset(self, slots: np.ndarray) -> None:
        pass

    def process(self, slots: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.abs(x).max(axis=1)


class LeakyDenoiser(Delay):
    """A late running mean, so that its state matters; counts the blocks that each slot was given.

    ``most``: of them in one call.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(slots, DELAY)
        self._mean = np.zeros(slots, np.float32)
        self.blocks = np.zeros(slots, np.int64)
        self.most = 0

    def reset(self, slots: np.ndarray) -> None:
        super().reset(slots)
        self._mean[slots] = 0

    def process(self, slots: np.ndarray, x: np.ndarray) -> np.ndarray:
        self.blocks[slots] += x.shape[1] // FRAME.block
        self.most = max(self.most, x.shape[1] // FRAME.block)
        late = super().process(slots, x)
        out = np.empty_like(late)
        for begin in range(0, x.shape[1], FRAME.block):
            part = late[:, begin : begin + FRAME.block]
            self._mean[slots] = 0.5 * self._mean[slots] + 0.5 * part.max(axis=1)
            out[:, begin : begin + FRAME.block] = part * self._mean[slots, None]
        return out


def front_end(slots: int = 1, **config: object) -> tuple[FrontEnd, LeakyDenoiser]:
    denoiser = LeakyDenoiser(slots)
    options = {"remove_dc": False, "asr_input": "denoised", **config}
    return FrontEnd(FrontendConfig.model_validate(options), PeakVad(), denoiser, slots), denoiser


def signal(*parts: tuple[float, int], seed: int = 0) -> np.ndarray:
    """(peak, blocks) after each other, [n, 1]; in each block a sample reaches the peak."""
    rng = np.random.default_rng(seed)
    peaks = np.repeat([p for p, _ in parts], [n for _, n in parts]).astype(np.float32)
    x = rng.uniform(-1, 1, (len(peaks), FRAME.block)).astype(np.float32)
    x[:, FRAME.block // 2] = 1
    return (x * peaks[:, None]).reshape(-1, 1)


def drain(front: FrontEnd) -> list[FrontBatch]:
    return list(iter(front.step, None))


def heard(front: FrontEnd, x: np.ndarray, cut: int = 700, at: int = 0) -> np.ndarray:
    """What the recogniser hears of all of it on slot 0, [blocks, block]."""
    out: list[FrontBatch] = []
    for begin in range(0, len(x), cut):
        piece = x[begin : begin + cut]
        assert front.push(0, piece, at + begin) == len(piece)
        out += drain(front)
    front.flush(0)
    return np.concatenate([batch.asr for batch in out + drain(front)])


def blocks_of(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, FRAME.block)


# --- when ----------------------------------------------------------------------------------------------


def test_silence_is_passed_as_it_is_once_it_has_lasted() -> None:
    front, denoiser = front_end()
    front.open(MONO_16K)
    x = signal((SOFT, REST_AFTER + 100))
    out = heard(front, x)
    np.testing.assert_array_equal(out[REST_AFTER:], blocks_of(x)[REST_AFTER:])
    assert (out[:REST_AFTER] != blocks_of(x)[:REST_AFTER]).any(axis=1).all(), "awake at first"
    assert denoiser.blocks[0] == REST_AFTER + 1, "one more: the block before time 0"


def test_no_silence_of_an_utterance_is_a_rest() -> None:
    front, denoiser = front_end()
    front.open(MONO_16K)
    x = signal(*[(LOUD, 1), (SOFT, REST_AFTER)] * 5)
    out = heard(front, x)
    assert (out != blocks_of(x)).any(axis=1).all()
    assert denoiser.blocks[0] == len(out) + 1
    assert REST_AFTER * FRAME.block_ms >= 1_200 + 300, "longest default end of speech and pre-roll"


@pytest.mark.parametrize(("peak", "wakes"), [(WAKE_PROB + 0.01, True), (WAKE_PROB - 0.01, False)])
def test_what_may_be_speech_wakes(peak: float, wakes: bool) -> None:
    front, denoiser = front_end()
    front.open(MONO_16K)
    x = signal((SOFT, REST_AFTER + 200), (peak, 1), (SOFT, 3))
    out = heard(front, x)
    raw = (out == blocks_of(x)).all(axis=1)
    assert raw[REST_AFTER : REST_AFTER + 200].all()
    np.testing.assert_array_equal(raw[-4:], not wakes)
    assert denoiser.blocks[0] == REST_AFTER + 1 + (WARM_UP + 4 if wakes else 0)
    assert (denoiser.most == WARM_UP) is wakes, "caught up in one call"


def test_a_restarted_stream_is_awake() -> None:
    front, denoiser = front_end()
    front.open(MONO_16K)
    heard(front, signal((SOFT, REST_AFTER + 100)))
    given_before = denoiser.blocks[0]
    front.restart(0, 10**6)
    x = signal((SOFT, 10))
    out = heard(front, x, at=10**6)
    assert denoiser.blocks[0] - given_before == 10 + 1
    new, _ = front_end()
    new.open(MONO_16K)
    np.testing.assert_array_equal(out, heard(new, x))


@pytest.mark.parametrize("config", [{"denoise_rests": False}, {"vad_input": "denoised"}], ids=str)
def test_no_rest_where_it_is_off_or_the_vad_needs_the_denoiser(config: dict[str, object]) -> None:
    front, denoiser = front_end(**config)
    front.open(MONO_16K)
    x = signal((0, 1), (SOFT, REST_AFTER + 50), (LOUD, 5))
    out = heard(front, x)
    alone = LeakyDenoiser(1)
    padded = np.concatenate((np.zeros(FRAME.block - DELAY), x[:, 0], np.zeros(DELAY))).astype(np.float32)
    expected = [alone.process(np.zeros(1, np.intp), b[None]) for b in blocks_of(padded)]
    np.testing.assert_array_equal(out, np.concatenate(expected[1:]))
    assert denoiser.blocks[0] == len(out) + 1


# --- speech that needs no denoiser ---------------------------------------------------------------------


def noisy_talk(noise: float) -> np.ndarray:
    """A second of noise, two of speech with gaps as between words, again and again, [n, 1]."""
    return signal(*([(noise, FRAME.blocks(1_000))] + [(noise, 1), (0.8, 9)] * 6) * 4)


@pytest.mark.parametrize(("noise", "rests"), [(0.02, True), (0.3, False)], ids=["32 dB", "9 dB"])
def test_speech_that_stands_out_is_heard_raw(noise: float, rests: bool) -> None:
    x = noisy_talk(noise)
    front, denoiser = front_end(asr_input="blend")
    front.open(MONO_16K)
    out = heard(front, x)
    raw = (out == blocks_of(x)).all(axis=1)
    assert not raw[: FRAME.blocks(1_500)].any(), "denoised until it is known how far it stands out"
    assert raw[-60:].all() == rests and raw.any() == rests
    assert (denoiser.blocks[0] < len(out)) == rests


@pytest.mark.parametrize("config", [{"blend_below_db": None}, {"asr_input": "denoised"}], ids=str)
def test_who_wants_all_of_it_denoised_gets_that(config: dict[str, object]) -> None:
    x = noisy_talk(0.02)
    front, denoiser = front_end(**{"asr_input": "blend", **config})
    front.open(MONO_16K)
    assert (heard(front, x) != blocks_of(x)).any(axis=1).all()
    assert denoiser.blocks[0] == len(x) // FRAME.block + 1


def test_noise_that_comes_up_wakes_the_denoiser() -> None:
    quiet, loud = noisy_talk(0.02), noisy_talk(0.3)
    front, _ = front_end(asr_input="blend")
    front.open(MONO_16K)
    out = heard(front, np.concatenate((quiet, loud)))
    raw = (out == blocks_of(np.concatenate((quiet, loud)))).all(axis=1)
    assert raw[len(quiet) // FRAME.block - 1] and not raw[-60:].any()


# --- what ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", [1, 2, WARM_UP - 1, WARM_UP])
def test_after_a_rest_that_it_can_catch_up_no_bit_is_changed(rest: int) -> None:
    x = signal((LOUD, 3), (SOFT, REST_AFTER + rest), (LOUD, 20))
    front, denoiser = front_end()
    front.open(MONO_16K)
    out = heard(front, x)
    always, _ = front_end(denoise_rests=False)
    always.open(MONO_16K)
    expected = heard(always, x)
    np.testing.assert_array_equal(out[-20:], expected[-20:])
    np.testing.assert_array_equal(out[: 3 + REST_AFTER], expected[: 3 + REST_AFTER])
    assert (out[3 + REST_AFTER : -20] != expected[3 + REST_AFTER : -20]).any(axis=1).all()
    assert denoiser.blocks[0] == len(out) + 1, "nothing was missed in the end"


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_neither_cuts_nor_other_streams_change_a_bit(data: st.DataObject) -> None:
    """Streams that rest, wake and begin at times of their own, together and each alone."""
    run = st.tuples(st.sampled_from([LOUD, SOFT, SOFT]), st.integers(1, REST_AFTER + WARM_UP + 20))
    xs = [signal(*data.draw(st.lists(run, min_size=2, max_size=5)), seed=slot) for slot in range(BATCH)]
    longest = data.draw(st.integers(100, 20_000))
    rng = np.random.default_rng(longest)
    together, _ = front_end(BATCH, asr_input="blend")
    slots, at = [together.open(MONO_16K) for _ in xs], [0] * BATCH
    batches: list[FrontBatch] = []
    while any(position < len(x) for position, x in zip(at, xs, strict=True)):
        for slot, x in zip(slots, xs, strict=True):
            at[slot] += together.push(slot, x[at[slot] : at[slot] + int(rng.integers(longest))], at[slot])
        batches += drain(together)
    for slot in slots:
        together.flush(slot)
    batches += drain(together)
    for slot, x in zip(slots, xs, strict=True):
        alone, _ = front_end(asr_input="blend")
        alone.open(MONO_16K)
        got = np.concatenate([batch.asr[batch.slots == slot] for batch in batches])
        np.testing.assert_array_equal(got, heard(alone, x, 5000))


# --- the real networks ---------------------------------------------------------------------------------


def speech(models_dir: Path, silence_s: float, seed: int) -> np.ndarray:
    """Faint noise with the demo recording (from a different place for each seed) after it, 16 kHz."""
    soundfile = pytest.importorskip("soundfile")
    audio, rate = soundfile.read(models_dir / "demo-speech" / "two_cities.wav", dtype="float32")
    assert rate == 48_000
    spoken = audio[seed * rate :][: 4 * rate].reshape(-1, 3).mean(axis=1)
    rng = np.random.default_rng(seed)
    x = np.concatenate((np.zeros(round(silence_s * 16_000)), spoken))
    x = x[: len(x) // FRAME.block * FRAME.block]
    return (x + 1e-3 * rng.standard_normal(len(x))).astype(np.float32)[:, None]


def si_sdr(reference: np.ndarray, x: np.ndarray) -> float:
    """In dB."""
    target = (reference @ x) / (reference @ reference) * reference
    return float(10 * np.log10((target @ target) / np.sum((x - target) ** 2)))


def test_real_speech_after_a_long_rest_is_as_if_there_had_been_none(models_dir: Path) -> None:
    x = speech(models_dir, 6, 0)
    out = {}
    for rests in (True, False):
        config = FrontendConfig(asr_input="denoised", denoise_rests=rests, remove_dc=False)
        front = make_front_end(config, ModelStore(models_dir))
        front.open(MONO_16K)
        out[rests] = heard(front, x)
    passed = (out[True] == blocks_of(x)).all(axis=1)
    woken = int(np.flatnonzero(passed)[-1]) + 1
    assert passed[REST_AFTER:woken].all() and woken - REST_AFTER > WARM_UP, "it rested, too long to catch up"
    assert si_sdr(out[False][woken:].ravel(), out[True][woken:].ravel()) > 30


def test_real_networks_that_rest_and_wake_in_a_batch_change_no_bit(models_dir: Path) -> None:
    xs = [speech(models_dir, silence_s, seed) for seed, silence_s in enumerate((1.0, 2.2, 5.0))]
    store = ModelStore(models_dir)
    together = make_front_end(FrontendConfig(), store)
    slots = [together.open(MONO_16K) for _ in xs]
    batches: list[FrontBatch] = []
    for begin in range(0, max(map(len, xs)), 3000):
        for slot, x in zip(slots, xs, strict=True):
            together.push(slot, x[begin : begin + 3000], begin)
        batches += drain(together)
    for slot in slots:
        together.flush(slot)
    batches += drain(together)
    for slot, x in zip(slots, xs, strict=True):
        alone = make_front_end(FrontendConfig(), store)
        alone.open(MONO_16K)
        got = np.concatenate([batch.asr[batch.slots == slot] for batch in batches])
        np.testing.assert_array_equal(got, heard(alone, x))
