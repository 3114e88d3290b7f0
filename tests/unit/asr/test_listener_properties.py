"""Whatever the probabilities, the texts and the delays: events are well formed and promises kept."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from asr_fakes import FakeRecognizer, Rig, Stream, broken_promises
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Checkpoint, Final, Partial, SpeechEnded, SpeechStarted

RUNS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.3, 0.46, 0.55, 0.65, 0.99]), st.integers(1, 60)),
    min_size=1,
    max_size=25,
)
CONFIGS = st.builds(
    lambda silence, longest, no_speech: EndpointConfig(
        silence_ms=silence, longest_ms=longest, no_speech_ms=no_speech
    ),
    st.sampled_from([100, 300, 800, 2_000]),
    st.sampled_from([2_000, 5_000, 25_000]),
    st.sampled_from([500, 5_000]),
)
VADS = st.builds(
    lambda speech, silence: VadConfig(min_speech_ms=speech, min_silence_ms=silence),
    st.sampled_from([0, 96, 300]),
    st.sampled_from([0, 200, 900]),
)
PROPERTY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def blocks_from(runs: list[tuple[float, int]]) -> Stream:
    """Every block its own word, so that each is accounted for."""
    probs = [prob for prob, count in runs for _ in range(count)]
    return [(np.full(FRAME.block, (i + 1) / 4096, np.float32), prob) for i, prob in enumerate(probs)]


def flipping(seed: int) -> Callable[[int, list[str]], list[str]]:
    """A recogniser that changes its mind: drops, replaces and adds words at random, also early ones."""
    generator = np.random.default_rng(seed)

    def change(call: int, words: list[str]) -> list[str]:
        chance = generator.random(len(words))
        kept = [f"x{call}" if c < 0.1 else word for c, word in zip(chance, words, strict=True) if c > 0.05]
        return kept if generator.random() > 0.1 else []

    return change


def check_events(rig: Rig, first_utt: int = 1) -> None:
    finals = rig.finals
    assert [final.utt for final in finals] == list(range(first_utt, first_utt + len(finals)))
    for final in finals:
        assert final.start_sample <= final.end_sample <= final.resume_sample
    for before, after in pairwise(finals):
        assert before.resume_sample <= after.resume_sample
        assert before.end_sample <= after.start_sample
    edges = [event for event in rig.events if isinstance(event, (SpeechStarted, SpeechEnded))]
    assert [type(edge) for edge in edges] == [SpeechStarted, SpeechEnded] * (len(edges) // 2)
    samples = [edge.sample for edge in edges]
    assert samples == sorted(samples)
    assert {edge.utt for edge in edges} == {final.utt for final in finals}
    check_order_within_utterances(rig)
    assert broken_promises(rig.events) == []


def check_order_within_utterances(rig: Rig) -> None:
    """A final is the last word on its utterance, and its beginning comes first."""
    ended: set[int] = set()
    started: set[int] = set()
    for event in rig.events:
        if isinstance(event, SpeechStarted):
            started.add(event.utt)
        elif isinstance(event, (Partial, Final)):
            assert event.utt in started
            assert event.utt not in ended
            if isinstance(event, Final):
                ended.add(event.utt)


@PROPERTY
@given(runs=RUNS, endpoint=CONFIGS, vad=VADS, delay=st.sampled_from([0, 1, 7, 40]), seed=st.integers(0, 99))
def test_events_are_well_formed_whatever_is_heard(runs, endpoint, vad, delay, seed) -> None:  # type: ignore[no-untyped-def]
    rig = Rig(FakeRecognizer(flipping(seed)), delay=delay, endpoint=endpoint, vad=vad)
    rig.feed(blocks_from(runs)).finish()
    assert rig.listener.pending == 0
    check_events(rig)


@PROPERTY
@given(runs=RUNS, endpoint=CONFIGS, delay=st.sampled_from([0, 7, 40]))
def test_no_speech_is_lost_and_none_heard_twice(runs, endpoint, delay) -> None:  # type: ignore[no-untyped-def]
    """With a recogniser that hears well, every block that opened the gate is in exactly one final."""
    rig = Rig(delay=delay, endpoint=endpoint, vad=VadConfig(min_speech_ms=0, min_silence_ms=0))
    blocks = blocks_from(runs)
    rig.feed(blocks).finish()
    heard = [int(word[1:]) for final in rig.finals for word in final.text.split()]
    assert heard == sorted(set(heard))
    assert {i + 1 for i, (_, prob) in enumerate(blocks) if prob >= 0.6} <= set(heard)


@PROPERTY
@given(runs=RUNS, at=st.floats(0, 1), delay=st.sampled_from([0, 3]), seed=st.integers(0, 99))
def test_a_restart_breaks_no_promise(runs, at, delay, seed) -> None:  # type: ignore[no-untyped-def]
    blocks = blocks_from(runs)
    gone = Rig(FakeRecognizer(flipping(seed)), delay=delay).feed(blocks[: int(at * len(blocks))])
    checkpoint = gone.listener.checkpoint
    begin = (checkpoint.sample or 0) // FRAME.block
    back = Rig(FakeRecognizer(flipping(seed + 1)), delay=delay, checkpoint=checkpoint, begin=begin)
    back.feed(blocks[begin:]).finish()
    both = gone.finals + back.finals
    assert [final.utt for final in both] == list(range(1, len(both) + 1))
    for before, after in pairwise(both):
        assert before.resume_sample <= after.resume_sample
    assert broken_promises(gone.events + back.events) == []


@PROPERTY
@given(runs=RUNS, changes=st.lists(st.tuples(VADS, CONFIGS, st.sampled_from([0, 100, 300])), max_size=5))
def test_reconfiguring_at_any_time_loses_nothing(runs, changes) -> None:  # type: ignore[no-untyped-def]
    blocks = blocks_from(runs)
    rig = Rig(delay=2)
    step = max(1, len(blocks) // (len(changes) + 1))
    for i in range(0, len(blocks), step):
        rig.feed(blocks[i : i + step])
        if changes:
            vad, endpoint, partial_ms = changes.pop()
            rig.listener.reconfigure(vad, endpoint, AsrConfig(partial_ms=partial_ms))
    rig.finish()
    heard = [int(word[1:]) for final in rig.finals for word in final.text.split()]
    assert heard == sorted(set(heard))
    check_events(rig)


@PROPERTY
@given(jumps=st.lists(st.tuples(RUNS, st.integers(1, 500)), min_size=1, max_size=4), checkpoint=st.booleans())
def test_gaps_anywhere(jumps, checkpoint) -> None:  # type: ignore[no-untyped-def]
    start = Checkpoint(sample=0, utt=3, opened=False) if checkpoint else Checkpoint()
    rig = Rig(checkpoint=start)
    for runs, gap in jumps:
        rig.feed(blocks_from(runs))
        rig.fed += gap
    rig.finish()
    check_events(rig, start.utt)


def test_a_split_before_speech_that_was_told_already() -> None:
    """Speech begins again in the pause at which a shorter limit then cuts."""
    blocks = blocks_from([(0.0, 4), (0.65, 50), (0.0, 53), (0.65, 49)])
    rig = Rig(delay=2).feed(blocks[:78])
    rig.listener.reconfigure(
        VadConfig(min_speech_ms=0, min_silence_ms=0),
        EndpointConfig(silence_ms=2_000, longest_ms=5_000, no_speech_ms=500),
        AsrConfig(partial_ms=0),
    )
    rig.feed(blocks[78:]).finish()
    assert [final.reason for final in rig.finals] == ["longest", "end_of_stream"]
    check_events(rig)
