"""The C ring and its plain-Python reference, driven by the same random operations, agree in everything."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from cosyd.ring import RingReader, RingWriter, WriterState, _ring
from cosyd.ring.reference import KNOWN_GAPS, ReferenceReader, ReferenceRing
from cosyd.spec import AudioSpec, SampleFormat

# Small rings, so that they are lapped often: capacities of 128 to 4096 frames where pages have 4 KiB.
SPECS = [
    AudioSpec(1000, 16, SampleFormat.S16),
    AudioSpec(1000, 7, SampleFormat.S16),
    AudioSpec(1000, 5, SampleFormat.S24),
    AudioSpec(1000, 3, SampleFormat.S32),
    AudioSpec(1000, 8, SampleFormat.F32),
    AudioSpec(1000, 1, SampleFormat.F32),
]
AMOUNTS = st.one_of(st.integers(0, 20), st.integers(0, 5000))
MOST_READERS = 5  # at once: each is asked about after every step
Pair = tuple[RingReader, ReferenceReader]


class RingMachine(RuleBasedStateMachine):
    readers: Bundle[Pair] = Bundle("readers")
    blocks = Bundle("blocks")

    @initialize(
        spec=st.sampled_from(SPECS), start=st.sampled_from([0, 3, 2**40 + 1]), seed=st.integers(0, 99)
    )
    def open(self, spec: AudioSpec, start: int, seed: int) -> None:
        self.spec = spec
        self.random = np.random.default_rng(seed)
        self.path = Path(f"/dev/shm/cosyd-test-{os.getpid()}-{uuid.uuid4().hex[:8]}")
        self.real = RingWriter.open(self.path, spec, 1 / spec.rate_hz, start_index=start)
        self.model = ReferenceRing(spec, self.real.capacity, start_index=start)
        self.attached: list[Pair] = []
        self.now_ns = 5_000_000_000

    @rule(frames=AMOUNTS)
    def write(self, frames: int) -> None:
        data = self.random.bytes(frames * self.spec.frame_bytes)
        assert self.real.write(data, self.now_ns) == self.model.write(data, self.now_ns) == frames

    @rule(frames=AMOUNTS, pause_ns=st.one_of(st.integers(0, 10**7), st.integers(0, 3 * 10**10)))
    def pause(self, frames: int, pause_ns: int) -> None:
        """The machine's clock goes on, by what ``frames`` take and some more."""
        self.now_ns += frames * 1_000_000_000 // self.spec.rate_hz + pause_ns

    @rule(
        known=st.booleans(),
        ahead=st.integers(-1000, 1000),
        ago_ns=st.one_of(st.integers(-1000, 1000), st.integers(0, 10**10)),
    )
    def arm(self, known: bool, ahead: int, ago_ns: int) -> None:
        """Where the clock stood, or nearly; or nothing is known of it."""
        point = max(0, self.model.write_index + ahead), max(0, self.now_ns - ago_ns)
        self.real.arm(point if known else None)
        self.model.arm(point if known else None)

    @rule(frames=AMOUNTS)
    def skip(self, frames: int) -> None:
        self.real.skip(frames)
        self.model.skip(frames)

    @rule(gaps=st.integers(1, KNOWN_GAPS + 10), audio=st.integers(1, 2))
    def many_gaps(self, gaps: int, audio: int) -> None:
        for _ in range(gaps):
            self.write(audio)
            self.skip(1)

    @rule(frames=st.integers(0, 10))
    def overrun(self, frames: int) -> None:
        self.real.count_overrun(frames)
        self.model.count_overrun(frames)

    @precondition(lambda self: len(self.attached) < MOST_READERS)
    @rule(target=readers, back=st.one_of(st.none(), st.integers(-50, 10_000)), leap=AMOUNTS)
    def attach(self, back: int | None, leap: int) -> Pair:
        """At the live edge, before it (perhaps older than what is kept), or ahead of it."""
        position = None if back is None else max(0, self.real.write_index - back)
        real = RingReader.attach(self.path, position=position, leap=leap)
        pair = real, self.model.attach(position=position, leap=leap)
        self.attached.append(pair)
        self.same(pair)
        return pair

    @rule(target=blocks, pair=readers, most=st.integers(1, 3000))
    def read(self, pair: Pair, most: int) -> object:
        if pair not in self.attached:
            return None
        real, model = pair[0].read(most), pair[1].read(most)
        self.same(pair)
        if real is None or model is None:
            assert real is model
            return None
        assert (real.index, real.lost, real.gap) == (model.index, model.lost, model.gap)
        assert real.frames.shape == model.frames.shape
        assert real.frames.tobytes() == model.frames.tobytes()
        return pair, real, model

    @rule(found=blocks)
    def intact(self, found: tuple[Pair, object, object] | None) -> None:
        if found is None or found[0] not in self.attached:
            return
        pair, real, model = found
        kept = pair[0].intact(real)
        assert kept == pair[1].intact(model)
        if kept:
            assert real.frames.tobytes() == model.frames.tobytes()
        self.same(pair)

    @rule(pair=readers)
    def wait(self, pair: Pair) -> None:
        if pair in self.attached:
            assert pair[0].wait(0) == pair[1].wait()
            self.same(pair)

    @rule(pair=consumes(readers))
    def detach(self, pair: Pair) -> None:
        if pair in self.attached:
            self.attached.remove(pair)
        pair[0].close()
        pair[1].close()

    @rule()
    def reopen(self) -> None:
        """The writer goes without removing the ring; the next one adopts it."""
        self.real.close(unlink=False)
        self.model.close()
        for pair in self.attached:
            assert pair[0].writer is WriterState.CLOSED
            assert pair[0].wait(0) and pair[1].wait()
            self.same(pair)
        self.real = RingWriter.open(self.path, self.spec, 1 / self.spec.rate_hz, start_index=7)
        self.model.reopen()
        assert self.real.adopted

    def same(self, pair: Pair) -> None:
        assert pair[0].position == pair[1].position
        assert pair[0].lost_frames == pair[1].lost_frames

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "real"):
            return
        assert self.real.slowest_reader() == self.model.slowest_reader()
        real, model = self.real.statistics(), self.model.statistics()
        key = lambda reader: (reader.position, reader.lost)  # noqa: E731 - slots are reused in another order
        assert sorted(real.readers, key=key) == sorted(model.readers, key=key)
        assert (real.write_index, real.epoch) == (model.write_index, model.epoch)
        assert self.real.resumed == self.model.resumed
        assert self.real.last_write_ns == self.model.last_write_ns
        assert (real.overruns, real.overrun_frames) == (model.overruns, model.overrun_frames)

    def teardown(self) -> None:
        if not hasattr(self, "real"):
            return
        for pair in self.attached:
            pair[0].close()
        self.real.close()
        assert not self.path.exists()


TestRingAgainstReference = RingMachine.TestCase
TestRingAgainstReference.settings = settings(
    max_examples=50,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_reference_knows_as_many_gaps_as_the_ring() -> None:
    assert _ring.VISIBLE_GAPS == KNOWN_GAPS
