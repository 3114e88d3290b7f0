"""The whole front end, with fake networks where only the plumbing is at stake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from front_end_fakes import HalvingDenoiser, LoudnessVad, drain, feed
from front_end_fakes import rows as blocks_of
from hypothesis import given, settings
from hypothesis import strategies as st

from cosyd.config.schema import FrontendConfig
from cosyd.errors import CosydError, ModelMissing, UnsupportedFormat
from cosyd.frontend.contract import PENDING_BLOCKS, FrontBatch, needs_denoiser
from cosyd.frontend.factory import make_front_end, models_needed
from cosyd.frontend.front_end import FrontEnd
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME, AudioSpec, SampleFormat

MONO_16K = AudioSpec(16_000, 1, SampleFormat.F32)


def front_end(slots: int = 3, **config: object) -> FrontEnd:
    frontend = FrontendConfig.model_validate(config)
    denoiser = HalvingDenoiser(slots) if needs_denoiser(frontend) else None
    return FrontEnd(frontend, LoudnessVad(slots), denoiser, slots)


def rows(batches: list[FrontBatch], slot: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(samples of the blocks, audio without a break, probabilities) of one slot."""
    samples, audio, probability = blocks_of(batches, slot)
    return samples, audio.reshape(-1), probability


# --- signals and clock ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("denoise", ["off", "dtln"])
def test_a_click_is_where_the_clock_says(rate: int, denoise: str) -> None:
    front = front_end(denoise=denoise, asr_input="blend", remove_dc=False)
    slot = front.open(AudioSpec(rate, 1, SampleFormat.F32))
    x = np.zeros((rate, 1), np.float32)
    click = round(0.4321 * rate)
    x[click] = 1
    start = 10**12
    samples, audio, _ = rows(feed(front, slot, x, list(range(0, rate, 777)), at=start), slot)
    block, within = divmod(int(np.abs(audio).argmax()), FRAME.block)
    found = samples[block] + within * rate / FRAME.rate_hz
    assert abs(found - (start + click)) <= 0.5 * max(1, rate / FRAME.rate_hz) + 0.5
    assert samples[0] == start
    np.testing.assert_allclose(np.diff(samples), FRAME.block * rate / FRAME.rate_hz, atol=1)


@pytest.mark.parametrize(
    ("asr_input", "blend", "gain"),
    [("raw", 0.5, 1.0), ("denoised", 0.5, 0.5), ("blend", 0.5, 0.75), ("blend", 0, 1)],
)
def test_the_recogniser_hears_what_is_configured(asr_input: str, blend: float, gain: float) -> None:
    front = front_end(asr_input=asr_input, blend=blend, vad_input="denoised", remove_dc=False)
    slot = front.open(MONO_16K)
    x = np.random.default_rng(0).standard_normal((5000, 1)).astype(np.float32) * 0.1
    _, audio, _ = rows(feed(front, slot, x), slot)
    np.testing.assert_allclose(audio[:5000], gain * x[:, 0], atol=1e-7)


def test_the_vad_hears_what_is_configured() -> None:
    x = np.ones((8192, 1), np.float32) * np.resize([0.5, -0.5], (8192, 1)).astype(np.float32)
    loud = {}
    for vad_input in ("raw", "denoised"):
        front = front_end(vad_input=vad_input, asr_input="blend", remove_dc=False)
        slot = front.open(MONO_16K)
        loud[vad_input] = rows(feed(front, slot, x), slot)[2]
    np.testing.assert_allclose(loud["denoised"], 0.5 * loud["raw"], rtol=1e-6)


@pytest.mark.parametrize(
    ("config", "needed"),
    [
        ({"vad_input": "raw", "asr_input": "raw"}, False),
        ({"vad_input": "raw", "asr_input": "blend", "blend": 0.0}, False),
        ({"denoise": "off", "vad_input": "raw", "asr_input": "blend"}, False),
        ({"vad_input": "denoised", "asr_input": "raw"}, True),
        ({"vad_input": "raw", "asr_input": "blend", "blend": 0.1}, True),
    ],
)
def test_no_denoiser_where_nobody_hears_it(config: dict[str, object], needed: bool) -> None:
    frontend = FrontendConfig.model_validate(config)
    assert needs_denoiser(frontend) is needed
    assert ("dtln" in models_needed(frontend)) is needed
    assert front_end(**config).delay == (384 if needed else 0)


def test_four_channels_of_which_the_first_is_silent() -> None:
    """Mapped channels carry their tones, whatever the silent one has, and no NaN passes."""
    time = np.arange(48_000) / 48_000
    tones = np.stack([0 * time, *(0.5 * np.sin(2 * np.pi * f * time) for f in (500, 1000, 1500))], axis=1)
    front = front_end()
    slot = front.open(AudioSpec(48_000, 4, SampleFormat.S32), [1, 2, 3], "mean")
    _, audio, probability = rows(feed(front, slot, (tones * (2**31 - 1)).astype(np.int32)), slot)
    spectrum = np.abs(np.fft.rfft(audio[4096 : 4096 + 8000]))
    assert set(np.argsort(spectrum)[-3:] * 2) == {500, 1000, 1500}
    assert np.isfinite(audio).all() and np.isfinite(probability).all()


def test_nan_from_the_device_reaches_nobody_and_is_counted() -> None:
    front = front_end()
    slot = front.open(MONO_16K)
    x = np.full((4096, 1), np.nan, np.float32)
    _, audio, probability = rows(feed(front, slot, x), slot)
    assert np.all(audio == 0) and np.all(probability == 0)
    assert front.statistics(slot).nonfinite == 4096


# --- pieces, batches -----------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    rate=st.sampled_from([8_000, 11_025, 16_000, 44_100, 48_000, 96_000]),
    channels=st.integers(1, 5),
    kind=st.sampled_from([np.int16, np.int32, np.float32]),
    data=st.data(),
)
def test_cutting_the_input_changes_no_bit(rate: int, channels: int, kind: type, data: st.DataObject) -> None:
    x = np.random.default_rng(rate + channels).standard_normal((rate // 3, channels))
    x = (
        (x * (0.1 if kind is np.float32 else 0.1 * np.iinfo(kind).max))
        .clip(-(2.0**31), 2**31 - 1)
        .astype(kind)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(x)), max_size=20)))
    spec = AudioSpec(rate, channels, SampleFormat.F32)
    whole, cut = front_end(), front_end()
    for got, expected in zip(
        rows(feed(cut, cut.open(spec), x, cuts), 0), rows(feed(whole, whole.open(spec), x), 0), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_real_networks_cut_and_batched_change_no_bit(models_dir: Path) -> None:
    """Three streams of different rates in one batch, in pieces, against each alone and whole."""
    specs = [AudioSpec(rate, 2, SampleFormat.S16) for rate in (16_000, 44_100, 48_000)]
    rng = np.random.default_rng(5)
    xs = [(rng.standard_normal((spec.rate_hz, 2)) * 3000).astype(np.int16) for spec in specs]
    store = ModelStore(models_dir)
    together = make_front_end(FrontendConfig(asr_input="blend", blend=0.5), store)
    slots, batches, at = [together.open(spec) for spec in specs], [], [0, 0, 0]
    while any(position < len(x) for position, x in zip(at, xs, strict=True)):
        for index, (slot, x) in enumerate(zip(slots, xs, strict=True)):
            piece = x[at[index] : at[index] + int(rng.integers(1, 9000))]
            at[index] += together.push(slot, piece, at[index])
        batches += drain(together)
    for slot in slots:
        together.flush(slot)
    batches += drain(together)
    assert max(len(set(batch.slots)) for batch in batches) == 3
    assert max(len(batch.slots) for batch in batches) > 6, "several blocks of each at once"
    alone = make_front_end(FrontendConfig(asr_input="blend", blend=0.5), store)
    for slot, spec, x in zip(slots, specs, xs, strict=True):
        other = alone.open(spec)
        expected = rows(feed(alone, other, x), other)
        for got, want in zip(rows(batches, slot), expected, strict=True):
            np.testing.assert_array_equal(got, want)


# --- life of a slot ------------------------------------------------------------------------------------


def test_all_input_comes_out_after_flush() -> None:
    for frames in (1, 383, 384, 512, 513, 5000):
        for denoise in ("off", "dtln"):
            front = front_end(denoise=denoise)
            slot = front.open(MONO_16K)
            samples, audio, _ = rows(feed(front, slot, np.ones((frames, 1), np.float32)), slot)
            assert len(audio) == -(-frames // FRAME.block) * FRAME.block
            assert samples[0] == 0


def test_a_restarted_slot_is_as_new_on_another_clock() -> None:
    x = np.random.default_rng(9).standard_normal((6000, 1)).astype(np.float32)
    used, new = front_end(), front_end()
    slot = used.open(MONO_16K)
    used.push(slot, x[::-1].copy(), 0)
    used.step()
    used.restart(slot, 70_000)
    got = rows(feed(used, slot, x, at=70_000), slot)
    expected = rows(feed(new, new.open(MONO_16K), x), 0)
    np.testing.assert_array_equal(got[0], expected[0] + 70_000)
    np.testing.assert_array_equal(got[1], expected[1])
    np.testing.assert_array_equal(got[2], expected[2])


def test_a_gap_that_nobody_announced_is_an_error() -> None:
    front = front_end()
    slot = front.open(MONO_16K)
    front.push(slot, np.zeros((100, 1), np.float32), 500)
    with pytest.raises(ValueError, match="frames of sample 601 pushed where 600 was due"):
        front.push(slot, np.zeros((100, 1), np.float32), 601)


def test_a_backlog_is_bounded_and_nothing_of_it_is_lost() -> None:
    front = front_end(denoise="off")
    slot = front.open(MONO_16K)
    x = np.random.default_rng(1).standard_normal((10 * 16_000, 1)).astype(np.float32)
    taken = front.push(slot, x, 0)
    assert 0 < taken < len(x)
    assert front.statistics(slot).pending == PENDING_BLOCKS
    assert front.push(slot, x[taken:], taken) == 0
    out = drain(front)
    out += feed(front, slot, x[taken:], at=taken)
    samples, audio, _ = rows(out, slot)
    np.testing.assert_array_equal(np.diff(samples), 512)
    other = front_end(denoise="off")
    expected = rows(feed(other, other.open(MONO_16K), x, list(range(0, len(x), 1000))), 0)
    np.testing.assert_array_equal(audio, expected[1])


def test_slots_are_bounded_and_used_again() -> None:
    front = front_end(slots=2)
    first, second = front.open(MONO_16K), front.open(MONO_16K)
    with pytest.raises(CosydError, match=r"all 2 streams are in use; raise frontend\.max_streams"):
        front.open(MONO_16K)
    front.push(first, np.ones((4096, 1), np.float32), 0)
    front.close(first)
    front.close(first)
    assert front.step() is None
    assert front.open(MONO_16K) == first != second
    assert front.statistics(first).pending == 0


def test_a_channel_map_beyond_the_device_is_refused_and_takes_no_slot() -> None:
    front = front_end(slots=1)
    with pytest.raises(UnsupportedFormat, match="channel_map"):
        front.open(AudioSpec(16_000, 2, SampleFormat.S16), [2])
    assert front.open(MONO_16K) == 0


def test_nothing_to_do_is_none() -> None:
    front = front_end()
    assert front.step() is None
    front.open(MONO_16K)
    assert front.step() is None


# --- choosing ------------------------------------------------------------------------------------------


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="cosyd models pull silero-vad-6"):
        make_front_end(FrontendConfig(), ModelStore(tmp_path))
