"""Another source as the reference of an array's echo: aligned by time, in step, missed when it is away."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from pipeline_fakes import START, running
from scipy.signal import resample_poly

from cosyd.config.schema import ArrayConfig, SourceConfig
from cosyd.ring import RingWriter
from cosyd.runtime.ipc import Notice
from cosyd.runtime.reference import RESTS_S, Pace, Reference
from cosyd.spec import AudioSpec, SampleFormat

RATE = 16_000
MS = 1_000_000


@pytest.fixture
def ring_path(request, tmp_path):
    name = f"/dev/shm/cosyd-test-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}"
    paths = {kind: f"{name}-{kind}.ring" for kind in ("mic", "played")}
    yield paths
    assert not any(os.path.exists(path) for path in paths.values())  # noqa: PTH110  (a leak is an error)


def noise(seconds, rate_hz=RATE, seed=0, level=3_000):
    """Below 6 kHz whatever the rate, so that it survives resampling."""
    wide = np.random.default_rng(seed).standard_normal(round(seconds * 8_000))
    return (level * resample_poly(wide, rate_hz // 8_000, 1)).astype(np.int16)


def array(**more):
    return ArrayConfig(geometry="square-4", reference_source="tv", **{"reference_lead_ms": 0, **more})


def last(end_ns, rate_hz=RATE):
    """When the last frame was captured of what ends then."""
    return end_ns - round(1e9 / rate_hz)


def beside(reference, seconds, first_ns, rate_hz=RATE, piece_s=0.05, channels=4):
    """The reference's rows beside silent frames of so many seconds."""
    n = round(piece_s * rate_hz)
    silent = np.zeros((n, channels), np.int16)
    pieces = [
        reference.beside(silent, first_ns + round(i * piece_s * 1e9)) for i in range(round(seconds / piece_s))
    ]
    return np.concatenate(pieces)[:, channels:].T


# --- pace ---


def settle(pace, drift, minutes, jitter_s=0.0, seed=0):
    """Seconds by which reading is off, look by look; the target runs ahead by ``drift``."""
    random = np.random.default_rng(seed)
    off, looks = 0.0, []
    for _ in range(round(60 * minutes)):
        off += drift - pace.skew
        looks.append(off)
        jumped = pace.accept(off + jitter_s * random.standard_normal(), 1.0)
        assert not jumped
    return np.array(looks)


@pytest.mark.parametrize("drift", [100e-6, -100e-6])
def test_a_pace_follows_a_clock_that_drifts_and_stays_with_it(drift):
    pace = Pace()
    off = settle(pace, drift, 15)
    assert pace.skew == pytest.approx(drift, rel=0.02)
    assert np.abs(off).max() < 4e-3
    assert np.ptp(off[-60:]) < 1e-4


def test_jitter_of_times_hardly_moves_it():
    pace = Pace()
    off = settle(pace, 0.0, 20, jitter_s=0.5e-3)  # a second's mean of what jitters by some ms
    assert np.abs(np.diff(off)).max() < 100e-6  # no more than crystals differ by
    assert np.abs(off).max() < 0.5e-3


def test_what_is_far_off_is_to_be_aligned_anew():
    pace = Pace()
    assert not any(pace.accept(0.001, 1.0) for _ in range(10))
    assert pace.accept(0.03, 1.0)


# --- reading ---


@pytest.mark.parametrize(("own", "its"), [(16_000, 16_000), (16_000, 48_000), (48_000, 16_000)])
def test_what_was_played_lies_beside_what_was_captured_then(ring_path, own, its):
    sound = noise(3.0, its)
    now = time.monotonic_ns()
    with RingWriter.open(ring_path["played"], AudioSpec(its, 2, SampleFormat.S16), 5) as ring:
        ring.write(np.stack((sound, sound), axis=1), t_ns=last(now, its))
        reference = Reference(array(reference_lead_ms=20), lambda: ring_path["played"], own)
        rows = beside(reference, 2.0, now - round(2.5e9), own)
        assert rows.shape == (1, 2 * own)
        expected = resample_poly(sound / 32_768, own, its)[round(0.52 * own) :][: 2 * own]
        for shift in (-2, 2):  # exact to a sample or so, not by chance
            assert np.corrcoef(rows[0], np.roll(expected, shift * own // RATE))[0, 1] < 0.9
        assert np.corrcoef(rows[0], expected)[0, 1] > 0.99
        assert not reference.rests
        reference.close()


def test_the_channels_that_are_named_are_rows_of_their_own(ring_path):
    left, right = noise(2.0, seed=1), noise(2.0, seed=2)
    now = time.monotonic_ns()
    with RingWriter.open(ring_path["played"], AudioSpec(RATE, 3, SampleFormat.S16), 5) as ring:
        ring.write(np.stack((left, np.zeros_like(left), right), axis=1), t_ns=last(now))
        reference = Reference(array(reference_channels=(2, 0)), lambda: ring_path["played"], RATE)
        rows = beside(reference, 1.0, now - round(1.5e9))
        assert np.corrcoef(rows[0], right[8_000:24_000])[0, 1] > 0.99
        assert np.corrcoef(rows[1], left[8_000:24_000])[0, 1] > 0.99
        spec, own = reference.widened(AudioSpec(48_000, 4, SampleFormat.S24), array())
        assert (spec.channels, spec.format, own.reference_channels) == (6, SampleFormat.F32, (4, 5))
        assert own.reference_source is None
        reference.close()


def test_after_a_gap_what_follows_is_where_it_belongs(ring_path):
    sound = noise(3.0)
    now = time.monotonic_ns()
    with RingWriter.open(ring_path["played"], AudioSpec(RATE, 1, SampleFormat.S16), 5) as ring:
        ring.write(sound[:16_000, None], t_ns=now - round(2e9))
        ring.skip(4_000)
        ring.write(sound[20_000:, None], t_ns=last(now))
        reference = Reference(array(), lambda: ring_path["played"], RATE)
        rows = beside(reference, 2.0, now - round(2.5e9))[0]
        expected = sound[8_000:40_000].astype(np.float32)
        expected[8_000:12_000] = 0
        assert np.corrcoef(rows, expected)[0, 1] > 0.98
        reference.close()


def test_without_the_other_source_there_is_silence_and_it_is_told_once(ring_path):
    reference = Reference(array(), lambda: ring_path["played"], RATE)
    now = time.monotonic_ns()
    assert not reference.ready(now)  # it may be late
    assert reference.ready(now - 200 * MS)
    assert not Reference(array(reference_lead_ms=300), lambda: None, RATE).ready(now - 200 * MS)
    assert not beside(reference, RESTS_S + 0.1, now - round(3e9)).any()
    lost = reference.news()
    assert (lost.code, lost.severity) == ("echo_reference_lost", "warning")
    assert "'tv'" in lost.message
    assert reference.news() is None
    assert reference.ready(time.monotonic_ns())  # nobody waits for what is not there


def test_it_is_taken_up_again_when_the_other_source_comes_back(ring_path):
    spec, sound = AudioSpec(RATE, 1, SampleFormat.S16), noise(3.0)
    reference = Reference(array(), lambda: ring_path["played"], RATE)
    now = time.monotonic_ns()
    beside(reference, 2.0, now - round(2.5e9))
    assert reference.news().code == "echo_reference_lost"
    for _ in range(2):  # it comes, it ends, it comes
        with RingWriter.open(ring_path["played"], spec, 5) as ring:
            ring.write(sound[:, None], t_ns=time.monotonic_ns())
            time.sleep(0.25)
            rows = beside(reference, 1.5, time.monotonic_ns() - round(2e9))
            assert np.abs(rows).max() > 0.05
            assert reference.news().code == "echo_reference_back"
        time.sleep(0.25)
        beside(reference, 1.5, time.monotonic_ns() + round(3e9))
        assert reference.news().code == "echo_reference_lost"
    reference.close()


def test_a_channel_that_the_other_source_has_not_is_named(ring_path):
    with RingWriter.open(ring_path["played"], AudioSpec(RATE, 1, SampleFormat.S16), 5) as ring:
        ring.write(noise(2.0)[:, None])
        reference = Reference(array(reference_channels=(1,)), lambda: ring_path["played"], RATE)
        beside(reference, 1.2, time.monotonic_ns() - round(1.5e9))
        assert "channels 0 to 0" in reference.news().message
        reference.close()


# --- through the pipeline ---


@pytest.mark.parametrize("echo", ["auto", "off"])
def test_what_the_other_source_plays_is_not_taken_for_speech(ring_path, echo):
    """An echo that is loud for 6 s: with its reference it is gone after a second, else it is all speech."""
    played = noise(6.0, seed=3)
    tone = np.zeros((4, len(played)))
    for mic in range(4):
        tone[mic, 640 + mic :] = 0.5 * played[: -640 - mic]
    mics = AudioSpec(RATE, 4, SampleFormat.S16)
    config = {"geometry": "square-4", "reference_source": "tv", "echo": echo}
    config |= {"doa": "off", "beamformer": "off"}
    with (
        running(frontend={"denoise": "off", "remove_dc": False}) as run,
        RingWriter.open(ring_path["mic"], mics, 10) as mic,
        RingWriter.open(ring_path["played"], AudioSpec(RATE, 1, SampleFormat.S16), 10) as tv,
    ):
        tv.write(played[:, None])
        mic.write(np.ascontiguousarray(tone.T, np.int16))
        run.pipeline.add_source(
            SourceConfig(name="tv", type="file", path="unused"), ring_path["played"], START, muted=True
        )
        run.add(ring_path["mic"], START, array=ArrayConfig(**config))
        run.settle(lambda: run.pipeline.progress().sources["talk"].audio_s > 5.8)
        run.pipeline.remove_source("talk")
        heard_s = sum(final.end_sample - final.start_sample for final in run.finals()) / RATE
        assert heard_s < 2.5 if echo == "auto" else heard_s > 4.5
        assert not run.of(Notice)
