"""What a streaming listener hands to the model, and what it tells: utterances, partials, finals."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming_rig import Rig, silence, words

from cosyd.config.schema import AsrConfig, EndpointConfig
from cosyd.spec import FRAME
from cosyd.types import Checkpoint, SpeechEnded, SpeechStarted

LEAD = silence(40)
SILENCE_BLOCKS = FRAME.blocks(800)
TAIL = int(SILENCE_BLOCKS * 0.6)


def test_a_sentence_is_one_final_with_growing_partials() -> None:
    rig = Rig().feed([*LEAD, *words(1, 5), *silence(40)])
    (final,) = rig.finals
    assert (final.text, final.reason, final.more) == ("w1 w2 w3 w4 w5", "silence", False)
    texts = [partial.text for partial in rig.partials]
    assert texts == ["w1", "w1 w2", "w1 w2 w3", "w1 w2 w3 w4", "w1 w2 w3 w4 w5"]
    assert rig.partials[-1].stable == "w1 w2 w3 w4"
    assert [type(event) for event in rig.events if isinstance(event, (SpeechStarted, SpeechEnded))] == [
        SpeechStarted,
        SpeechEnded,
    ]


def test_each_block_is_handed_over_once_and_the_model_rests_in_silence() -> None:
    rig = Rig().feed([*LEAD, *words(1, 3), *silence(200), *words(4, 6), *silence(40)])
    spoken = [value for value in rig.heard if value]
    assert spoken == [word for word in range(1, 7) for _ in range(6)]
    preroll = FRAME.blocks(300)
    assert len(rig.heard) == 2 * (preroll + 18 + TAIL)


def test_the_final_comes_at_the_endpoint_with_its_rule() -> None:
    rig = Rig().feed([*LEAD, *words(1, 5)])
    waited = 0
    while not rig.finals and waited < 60:
        rig.feed(silence(1))
        waited += 1
    assert waited == SILENCE_BLOCKS
    assert rig.finals[0].decided_sample == rig.fed * FRAME.block


def test_words_after_the_tail_but_before_the_endpoint_belong_to_the_utterance() -> None:
    rig = Rig().feed([*LEAD, *words(1, 3), *silence(TAIL + 4), *words(4, 6), *silence(40)])
    (final,) = rig.finals
    assert final.text == "w1 w2 w3 w4 w5 w6"
    assert rig.heard.count(0) == FRAME.blocks(300) + TAIL + 4 + TAIL, "no pause is left out"


def test_blanks_alone_end_an_utterance_where_noise_keeps_the_gate_open() -> None:
    noise = words(100, 130, prob=0.9)
    rig = Rig(blank_after=50).feed([*LEAD, *words(1, 3), *noise])
    final = rig.finals[0]
    assert (final.text, final.reason) == ("w1 w2 w3", "silence")
    waited = (final.decided_sample / FRAME.block) - (40 + 18)
    assert FRAME.blocks(1_200) <= waited <= FRAME.blocks(1_200) + 2


def test_an_utterance_without_words_ends_empty() -> None:
    rig = Rig(blank_after=0, endpoint=EndpointConfig(no_speech_ms=2_000)).feed([*LEAD, *words(1, 20)])
    assert [(final.text, final.reason) for final in rig.finals][:1] == [("", "no_speech")]


def test_a_long_utterance_is_cut_at_a_pause_and_loses_nothing() -> None:
    endpoint = EndpointConfig(longest_ms=6_000)
    speech = [*words(1, 25), *silence(4), *words(26, 50), *silence(4), *words(51, 60)]
    rig = Rig(endpoint=endpoint).feed([*LEAD, *speech, *silence(40)])
    assert len(rig.finals) > 1
    assert [final.more for final in rig.finals] == [True] * (len(rig.finals) - 1) + [False]
    assert {final.reason for final in rig.finals[:-1]} == {"longest"}
    text = " ".join(final.text for final in rig.finals).split()
    assert list(dict.fromkeys(text)) == [f"w{i}" for i in range(1, 61)]
    assert [v for v in rig.heard if v] == [word for word in range(1, 61) for _ in range(6)]
    assert [chunk.ends for chunk in rig.chunks if chunk.ends][:-1] == ["segment"] * (len(rig.finals) - 1)


def test_the_end_of_a_stream_right_after_a_cut() -> None:
    rig = Rig(endpoint=EndpointConfig(longest_ms=2_000)).feed([*LEAD, *words(1, 9)])
    while not rig.finals:
        rig.feed(words(10, 10, blocks=1))
    rig.finish()
    assert [final.more for final in rig.finals] == [True, False]
    assert rig.listener.pending == 0
    assert rig.listener.checkpoint.utt == 3


@pytest.mark.parametrize("reason", ["device_lost", "muted", "shutdown", "gap"])
def test_what_is_open_ends_with_the_reason(reason: str) -> None:
    rig = Rig().feed([*LEAD, *words(1, 3)]).finish(reason)
    assert [(final.text, final.reason) for final in rig.finals] == [("w1 w2 w3", reason)]


def test_a_jump_of_the_clock_ends_what_is_open() -> None:
    rig = Rig().feed([*LEAD, *words(1, 3)])
    rig.fed += 100
    rig.feed([*words(4, 6), *silence(40)])
    assert [(final.text, final.reason) for final in rig.finals] == [
        ("w1 w2 w3", "gap"),
        ("w4 w5 w6", "silence"),
    ]


def test_a_successor_goes_on_from_the_checkpoint() -> None:
    blocks = [*LEAD, *words(1, 5), *silence(40)]
    first = Rig(delay=2).feed(blocks[:60])
    checkpoint = first.listener.checkpoint
    assert checkpoint.opened and checkpoint.stable == "w1 w2 w3"
    begin = (checkpoint.sample or 0) // FRAME.block
    second = Rig(checkpoint=checkpoint, begin=begin).feed(blocks[begin:])
    (final,) = second.finals
    assert (final.text, final.utt) == ("w1 w2 w3 w4 w5", first.partials[0].utt)
    assert not [event for event in second.events if isinstance(event, SpeechStarted)]


def test_a_successor_to_whom_the_audio_does_not_come_again() -> None:
    rig = Rig(checkpoint=Checkpoint(1_000, 7, True, "w1 w2")).finish("shutdown")
    assert [(final.utt, final.text) for final in rig.finals] == [(7, "w1 w2")]


def test_a_failed_final_falls_back_on_the_newest_partial() -> None:
    rig = Rig().feed([*LEAD, *words(1, 5), *silence(20)])
    rig.delay = 1_000
    rig.feed(silence(20))
    assert not rig.finals
    events = rig.listener.failed(rig.chunks[-1])
    assert [event.text for event in events] == ["w1 w2 w3 w4 w5"]  # type: ignore[union-attr]


def test_no_partials_when_none_are_wanted() -> None:
    rig = Rig(asr=AsrConfig(partial_ms=0)).feed([*LEAD, *words(1, 5), *silence(40)])
    assert not rig.partials
    assert rig.finals[0].text == "w1 w2 w3 w4 w5"


def test_hotwords_change_with_the_next_utterance() -> None:
    rig = Rig().feed([*LEAD, *words(1, 3)])
    rig.listener.reconfigure(rig.vad, rig.endpoint, AsrConfig(hotwords=("latte:2",)))
    rig.feed([*words(4, 5), *silence(60), *words(6, 8), *silence(40)])
    by_utt = {chunk.utt: [str(hotword) for hotword in chunk.hotwords] for chunk in rig.chunks}
    assert by_utt == {1: [], 2: ["latte:2"]}


RUNS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.3, 0.46, 0.55, 0.65, 0.99]), st.integers(1, 60)),
    min_size=1,
    max_size=25,
)


@given(
    RUNS,
    st.integers(0, 12),
    st.sampled_from([100, 300, 800, 2_000]),
    st.sampled_from([2_000, 5_000, 25_000]),
    st.sampled_from([16_000, 44_100]),
)
@settings(max_examples=80, deadline=None)
def test_whatever_comes_events_are_well_formed(
    runs: list[tuple[float, int]], delay: int, silence_ms: int, longest_ms: int, rate_hz: int
) -> None:
    endpoint = EndpointConfig(silence_ms=silence_ms, longest_ms=longest_ms)
    rig = Rig(delay=delay, endpoint=endpoint, rate_hz=rate_hz)
    probs = [prob for prob, count in runs for _ in range(count)]
    blocks = [block for i, prob in enumerate(probs, start=1) for block in words(i, i, blocks=1, prob=prob)]
    rig.feed(blocks).finish()
    assert rig.heard == sorted(set(rig.heard)), "no block twice, none out of order"
    assert [final.utt for final in rig.finals] == list(range(1, len(rig.finals) + 1))
    assert " ".join(final.text for final in rig.finals).split() == [f"w{i}" for i in rig.heard]
    for before, after in pairwise(rig.finals):
        assert before.start_sample <= before.end_sample <= before.resume_sample <= after.resume_sample
        assert before.end_sample <= after.start_sample
    stable: dict[int, str] = {}
    for partial in rig.partials:
        assert partial.text.startswith(partial.stable)
        assert partial.stable.startswith(stable.get(partial.utt, ""))
        stable[partial.utt] = partial.stable
    for final in rig.finals:
        assert final.text.startswith(stable.get(final.utt, ""))
    edges = [type(event) for event in rig.events if isinstance(event, (SpeechStarted, SpeechEnded))]
    assert edges == [SpeechStarted, SpeechEnded] * (len(edges) // 2)
    assert rig.listener.pending == 0
