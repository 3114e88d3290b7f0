"""The listener: beginnings and ends of utterances, what their finals hear, restarts."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from asr_fakes import BLOCK_MS, FakeRecognizer, Piece, Rig, blocks_of, broken_promises, sentence, stream

from cosyd.asr.incremental import REFRESH_MS
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.spec import FRAME
from cosyd.types import Checkpoint, Partial, SpeechEnded, SpeechStarted, Transcript

SECOND = FRAME.rate_hz
PAUSE = Piece(2_000)


def quiet_noise(blocks: int, level: float = 1e-4) -> list[tuple[np.ndarray, float]]:
    generator = np.random.default_rng(7)
    return [(generator.normal(0, level, FRAME.block).astype(np.float32), 0.02) for _ in range(blocks)]


def test_one_sentence() -> None:
    rig = Rig().feed(stream(Piece(1_000), *sentence(1, 8), PAUSE))
    (final,) = rig.finals
    assert final.text == "w1 w2 w3 w4 w5 w6 w7 w8"
    assert (final.utt, final.reason, final.more) == (1, "silence", False)
    assert final.start_sample == blocks_of(1_000) * FRAME.block
    assert final.end_sample == (blocks_of(1_000) + 8 * blocks_of(200)) * FRAME.block
    assert [type(event) for event in rig.events if not isinstance(event, Partial)] == [
        SpeechStarted,
        SpeechEnded,
        type(final),
    ]


def test_first_word_is_heard_whole_though_the_probability_comes_late() -> None:
    """Field case 12: speech at 2.000 s, the probability crosses 120 ms later."""
    rig = Rig()
    speech = stream(Piece(1_000, 5))
    late = -(-120 // BLOCK_MS)
    onset = 2 * SECOND // FRAME.block * FRAME.block  # the block in which 2.000 s lies
    rig.feed(quiet_noise(onset // FRAME.block))
    rig.feed([(audio, 0.1 if i < late else 0.95) for i, (audio, _) in enumerate(speech)])
    (started,) = rig.of(SpeechStarted)
    assert abs(started.sample - 2 * SECOND) <= FRAME.block
    assert all(decode.start_sample <= 1.70 * SECOND for decode in rig.decodes)


def test_noise_before_speech_is_not_taken_for_its_beginning() -> None:
    rig = Rig().feed(quiet_noise(60, 0.02)).feed([(a + 0.1, p) for a, p in stream(Piece(1_000, 1))])
    (started,) = rig.of(SpeechStarted)
    assert started.sample == 60 * FRAME.block


@pytest.mark.parametrize("cut", range(1, 17))
def test_the_last_word_is_heard_wherever_the_stream_ends(cut: int) -> None:
    """Field case 11: audio that ends any number of blocks after the last word began."""
    blocks = stream(Piece(500), *sentence(1, 5), Piece(cut * BLOCK_MS, 99))
    rig = Rig().feed(blocks).finish()
    (final,) = rig.finals
    assert final.text.split()[-1] == "w99"
    audio = rig.decodes[-1].audio
    assert not audio[-blocks_of(400) * FRAME.block :].any()  # followed by silence, as models need it


@pytest.mark.parametrize("silence_ms", [400, 800, 1_500])
def test_silence_is_audio_time(silence_ms: int) -> None:
    """Field case 14: results as late as 30 blocks change nothing; the test has no clock to begin with."""
    ends = []
    for delay in (0, 3, 30):
        rig = Rig(delay=delay, endpoint=EndpointConfig(silence_ms=silence_ms))
        rig.feed(stream(Piece(500), *sentence(1, 5), Piece(4_000)))
        (final,) = rig.finals
        spoken = blocks_of(500) + 5 * blocks_of(200)
        ends.append(rig.when[rig.events.index(final)] - spoken + 1)
        assert final.reason == "silence"
    assert ends[0] == ends[1] == blocks_of(silence_ms)


def test_very_short_speech_is_given_more_time() -> None:
    rig = Rig(endpoint=EndpointConfig(short_speech_ms=400, short_silence_ms=1_200))
    rig.feed(stream(Piece(500), Piece(200, 1), Piece(1_000), Piece(600, 2), Piece(1_000)))
    assert [(final.text, final.reason) for final in rig.finals] == [("w1 w2", "silence")]
    rig.feed(stream(Piece(200, 3), Piece(2_000)))
    assert [(final.text, final.reason) for final in rig.finals[1:]] == [("w3", "silence_short")]


def flicker(ms: float, seed: int = 1) -> list[tuple[np.ndarray, float]]:
    generator = np.random.default_rng(seed)
    return [(np.zeros(FRAME.block, np.float32), generator.uniform(0.40, 0.55)) for _ in range(blocks_of(ms))]


@pytest.mark.parametrize(("threshold", "reason"), [(0.6, "silence"), (0.45, "no_speech"), (0.5, "no_speech")])
def test_flicker_after_speech_ends_by_a_named_rule(threshold: float, reason: str) -> None:
    """Field case 15: 3 s of speech, then 60 s of probability 0.40 to 0.55."""
    rig = Rig(vad=VadConfig(threshold=threshold))
    rig.feed(stream(Piece(500), *sentence(1, 15))).feed(flicker(60_000)).finish()
    assert rig.finals[0].text == " ".join(f"w{i}" for i in range(1, 16))
    assert rig.finals[0].reason == reason
    assert rig.when[rig.events.index(rig.finals[0])] < blocks_of(500 + 3_000 + 6_000)
    assert {final.text for final in rig.finals[1:]} <= {""}


def test_flicker_is_cut_by_the_longest_rule_when_nothing_else_can_tell() -> None:
    """As above, with a recogniser that finds new words in noise."""
    rig = Rig(FakeRecognizer(lambda call, words: words + [f"n{i}" for i in range(call)]))
    rig.listener.reconfigure(VadConfig(threshold=0.45), EndpointConfig(longest_ms=10_000), AsrConfig())
    rig.feed(stream(*sentence(1, 15))).feed(flicker(60_000))
    assert rig.finals[0].reason == "longest"
    assert rig.finals[0].end_sample <= 10 * SECOND


@pytest.mark.parametrize("partial_ms", [0, 300])
def test_speech_in_which_nothing_is_recognised_is_dropped(partial_ms: int) -> None:
    rig = Rig(asr=AsrConfig(partial_ms=partial_ms))
    rig.feed([(np.full(FRAME.block, 0.0, np.float32), 0.9)] * blocks_of(5_500))
    (final,) = rig.finals
    assert (final.text, final.reason) == ("", "no_speech")
    assert rig.of(Partial) == []


def test_long_speech_is_split_at_a_pause_and_nothing_is_lost_or_doubled() -> None:
    pieces = [p for i in range(30) for p in (*sentence(i * 5 + 1, 5), Piece(130, prob=0.5))]
    rig = Rig(endpoint=EndpointConfig(longest_ms=10_000)).feed(stream(Piece(500), *pieces, PAUSE))
    assert rig.text.split() == [f"w{i}" for i in range(1, 151)]
    *split, last = rig.finals
    assert len(split) >= 3
    assert {(final.reason, final.more) for final in split} == {("longest", True)}
    assert (last.reason, last.more) == ("silence", False)
    for before, after in pairwise(rig.finals):
        assert before.resume_sample == after.start_sample
    assert broken_promises(rig.events) == []


def test_partials_come_at_their_pace_while_someone_speaks_and_not_in_silence() -> None:
    rig = Rig(asr=AsrConfig(partial_ms=300))
    rig.feed(stream(Piece(1_000), *sentence(1, 30), Piece(10_000)))
    asked = [decode for decode in rig.decodes if decode.kind == "partial"]
    distances = np.diff([decode.end_sample for decode in asked])
    assert set(distances) == {blocks_of(300) * FRAME.block}
    assert asked[-1].end_sample <= (blocks_of(1_000) + 30 * blocks_of(200) + blocks_of(200)) * FRAME.block
    assert 15 <= len(asked) <= 22


def test_a_partial_without_a_result_is_asked_for_again_with_what_came_since() -> None:
    rig = Rig(delay=20, asr=AsrConfig(partial_ms=300))
    rig.feed(stream(Piece(1_000), *sentence(1, 10)))
    asked = [decode for decode in rig.decodes if decode.kind == "partial"]
    ends = np.array([decode.end_sample for decode in asked]) // FRAME.block
    assert set(np.diff(ends)) == {blocks_of(REFRESH_MS)}
    assert all(decode.pause_s == 0.3 for decode in asked)


def test_without_partials_there_are_none() -> None:
    rig = Rig(asr=AsrConfig(partial_ms=0)).feed(stream(Piece(1_000), *sentence(1, 30), PAUSE))
    assert rig.of(Partial) == []
    assert [decode.kind for decode in rig.decodes if decode.kind != "partial"] == ["speculative"]
    assert len(rig.finals[0].text.split()) == 30


def test_the_speculative_result_is_the_final_and_there_at_once() -> None:
    rig = Rig(delay=2).feed(stream(Piece(500), *sentence(1, 8), PAUSE))
    (final,) = rig.finals
    spoken = blocks_of(500) + 8 * blocks_of(200)
    assert rig.when[rig.events.index(final)] == spoken + blocks_of(800) - 1
    (speculative,) = [decode for decode in rig.decodes if decode.kind != "partial"]
    assert speculative.kind == "speculative"
    assert final.resume_sample == speculative.end_sample


def test_a_late_speculative_result_is_waited_for_not_asked_for_twice() -> None:
    rig = Rig(delay=20).feed(stream(Piece(500), *sentence(1, 8), PAUSE))
    assert [decode.kind for decode in rig.decodes if decode.kind != "partial"] == ["speculative"]
    assert rig.text == "w1 w2 w3 w4 w5 w6 w7 w8"


def test_a_speculation_is_in_vain_when_speech_goes_on() -> None:
    rig = Rig().feed(stream(Piece(500), *sentence(1, 5), Piece(650), *sentence(6, 5), PAUSE))
    assert [decode.kind for decode in rig.decodes if decode.kind != "partial"] == ["speculative"] * 2
    assert [final.text.split() for final in rig.finals] == [[f"w{i}" for i in range(1, 11)]]


def test_what_a_final_hears_does_not_depend_on_when_the_speculation_came() -> None:
    blocks = stream(Piece(500), *sentence(1, 5), Piece(650), *sentence(6, 5), PAUSE)
    texts = {Rig(delay=delay).feed(blocks).finish().text for delay in (0, 1, 5, 25, 60)}
    assert texts == {"w1 w2 w3 w4 w5 w6 w7 w8 w9 w10"}


def test_long_utterances_are_settled_at_pauses() -> None:
    parts = [
        piece for i, count in enumerate((108, 15)) for piece in (*sentence(i * 108 + 1, count), Piece(650))
    ]
    rig = Rig(endpoint=EndpointConfig(longest_ms=30_000)).feed(stream(Piece(500), *parts, PAUSE))
    assert rig.text.split() == [f"w{i}" for i in range(1, 124)]
    assert len(rig.finals) == 1
    assert max(decode.audio.size for decode in rig.decodes) < 26 * SECOND
    assert broken_promises(rig.events) == []


def test_finals_keep_their_order_when_results_do_not() -> None:
    rig = Rig(delay=10_000).feed(stream(Piece(500), *sentence(1, 5), PAUSE, *sentence(6, 5), PAUSE))
    first, second = [decode for decode in rig.decodes if decode.kind == "speculative"]
    assert rig.listener.pending == 2
    assert rig.listener.decoded(second, Transcript("second")) == []
    finals = rig.listener.decoded(first, Transcript("first"))
    assert [(final.utt, final.text) for final in finals] == [(1, "first"), (2, "second")]  # type: ignore[union-attr]
    assert rig.listener.pending == 0


def test_a_failed_final_falls_back_on_the_newest_partial() -> None:
    rig = Rig(delay=5).feed(stream(Piece(500), *sentence(1, 10)))
    newest = rig.of(Partial)[-1].text
    rig.delay = 10_000
    rig.feed(stream(PAUSE))
    (speculative,) = [decode for decode in rig.decodes if decode.kind == "speculative"]
    (final,) = rig.listener.failed(speculative)
    assert final.text.startswith(newest)  # type: ignore[union-attr]


def test_a_failed_speculation_is_asked_for_once_more_at_the_endpoint() -> None:
    rig = Rig(delay=10_000).feed(stream(Piece(500), *sentence(1, 10), Piece(600)))
    (speculative,) = [decode for decode in rig.decodes if decode.kind == "speculative"]
    assert rig.listener.failed(speculative) == []
    rig.feed(stream(Piece(1_000)))
    assert [decode.kind for decode in rig.decodes if decode.kind != "partial"] == ["speculative", "final"]


@pytest.mark.parametrize("reason", ["device_lost", "gap", "end_of_stream", "muted", "shutdown"])
def test_an_open_utterance_is_ended_whole_with_the_reason(reason: str) -> None:
    rig = Rig().feed(stream(Piece(500), *sentence(1, 5))).finish(reason)
    assert [(final.text, final.reason) for final in rig.finals] == [("w1 w2 w3 w4 w5", reason)]
    assert [type(e) for e in rig.events if not isinstance(e, Partial)][:2] == [SpeechStarted, SpeechEnded]


def test_ending_nothing_is_nothing() -> None:
    rig = Rig().feed(stream(PAUSE)).finish().finish("shutdown")
    assert rig.events == []


def test_a_jump_of_the_clock_ends_the_utterance() -> None:
    rig = Rig().feed(stream(Piece(500), *sentence(1, 5)))
    rig.fed += 100
    rig.feed(stream(*sentence(6, 5), PAUSE))
    assert [(final.text, final.reason) for final in rig.finals] == [
        ("w1 w2 w3 w4 w5", "gap"),
        ("w6 w7 w8 w9 w10", "silence"),
    ]


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 48_000])
def test_positions_are_in_the_source_s_clock(rate_hz: int) -> None:
    rig = Rig(rate_hz=rate_hz).feed(stream(Piece(1_000), *sentence(1, 8), PAUSE))
    (final,) = rig.finals
    assert final.reason == "silence"  # and not gap, where blocks are no whole number of samples
    seconds = blocks_of(1_000) * BLOCK_MS / 1000
    assert final.start_sample / rate_hz == pytest.approx(seconds, abs=0.001)


def test_a_block_is_copied() -> None:
    rig = Rig()
    audio = np.full(FRAME.block, 7 / 4096, np.float32)
    rig.feed([(audio, 0.9)] * 20)
    audio[:] = 9 / 4096
    rig.finish()
    assert rig.text == "w7"


def test_new_configuration_keeps_the_open_utterance() -> None:
    rig = Rig().feed(stream(Piece(500), *sentence(1, 8)))
    rig.listener.reconfigure(VadConfig(), EndpointConfig(silence_ms=300), AsrConfig())
    rig.feed(stream(Piece(320)))
    assert [final.text for final in rig.finals] == ["w1 w2 w3 w4 w5 w6 w7 w8"]


def test_doubtful_text_is_dropped() -> None:
    class Unsure(FakeRecognizer):
        def transcribe(self, requests):  # type: ignore[no-untyped-def]
            return [Transcript("You", (1,), 0.3) for _ in requests]

    rig = Rig(Unsure()).feed(stream(Piece(500), Piece(1_000, 1), PAUSE))
    assert rig.of(Partial) == []
    assert [final.text for final in rig.finals] == [""]


@pytest.mark.parametrize(("partial_ms", "shown"), [(200, ""), (900, "w1 w2 w3 w4 w5")])
def test_the_less_often_results_come_the_less_sure_words_are_shown(partial_ms: int, shown: str) -> None:
    class Fair(FakeRecognizer):
        def transcribe(self, requests):  # type: ignore[no-untyped-def]
            return [
                replace(said, sure=(0.99,) * (len(said.tokens) - 1) + (0.8,))
                for said in super().transcribe(requests)
            ]

    rig = Rig(Fair(), rate_hz=48_000, asr=AsrConfig(partial_ms=partial_ms))
    rig.feed(stream(Piece(1_000), *sentence(1, 9)))
    first = next(decode for decode in rig.decodes if decode.kind == "partial")
    early = [p.text for p in rig.of(Partial) if p.end_sample == first.end_sample]
    assert early == [shown] * bool(shown)


def test_speech_and_silence_for_five_minutes() -> None:
    """Field case 18: 3 s of speech, 30 s of silence, over and over."""
    pieces = [p for i in range(9) for p in (*sentence(i * 15 + 1, 15), Piece(30_000))]
    rig = Rig().feed(stream(*pieces)).finish()
    assert rig.text.split() == [f"w{i}" for i in range(1, 9 * 15 + 1)]
    assert [final.utt for final in rig.finals] == list(range(1, 10))
    assert broken_promises(rig.events) == []
    for decode in rig.decodes:
        assert decode.audio.size < 5 * SECOND


# --- restarts ------------------------------------------------------------------------------------------


def resumed(blocks: list[tuple[np.ndarray, float]], at: int) -> tuple[Rig, Rig]:
    """A rig that is gone after ``at`` blocks and one that takes up from its checkpoint."""
    gone = Rig(delay=2).feed(blocks[:at])
    checkpoint = gone.listener.checkpoint
    begin = (checkpoint.sample or 0) // FRAME.block
    back = Rig(delay=2, checkpoint=checkpoint, begin=begin).feed(blocks[begin:]).finish()
    return gone, back


@pytest.mark.parametrize("at", range(1, 170, 4))
def test_a_restart_anywhere_publishes_every_utterance_whole_and_once(at: int) -> None:
    blocks = stream(Piece(700), *sentence(1, 8), Piece(1_200), *sentence(9, 6), PAUSE)
    whole = Rig(delay=2).feed(blocks).finish()
    gone, back = resumed(blocks, at)
    both = gone.finals + back.finals
    assert [(f.utt, f.text, f.start_sample, f.end_sample, f.reason) for f in both] == [
        (f.utt, f.text, f.start_sample, f.end_sample, f.reason) for f in whole.finals
    ]
    assert broken_promises(gone.events + back.events) == []
    started = [event.utt for event in gone.of(SpeechStarted) + back.of(SpeechStarted)]
    assert started == [1, 2]


def test_the_checkpoint_of_an_open_utterance_carries_its_stable_prefix() -> None:
    rig = Rig().feed(stream(Piece(700), *sentence(1, 20)))
    checkpoint = rig.listener.checkpoint
    assert (checkpoint.utt, checkpoint.opened) == (1, True)
    assert checkpoint.stable == rig.of(Partial)[-1].stable != ""
    assert checkpoint.sample == rig.decodes[0].start_sample


def test_an_idle_checkpoint_does_not_grow_old() -> None:
    rig = Rig().feed(stream(*sentence(1, 5), Piece(60_000)))
    checkpoint = rig.listener.checkpoint
    assert (checkpoint.utt, checkpoint.opened) == (2, False)
    assert checkpoint.sample is not None
    assert rig.sample(rig.fed) - checkpoint.sample < SECOND


def test_a_promise_survives_a_recogniser_that_now_says_something_else() -> None:
    checkpoint = Checkpoint(sample=0, utt=4, opened=True, stable="w1 w2 wx")
    rig = Rig(checkpoint=checkpoint).feed(stream(Piece(320), *sentence(1, 8), PAUSE))
    (final,) = rig.finals
    assert (final.utt, final.text) == (4, "w1 w2 wx w4 w5 w6 w7 w8")


def test_an_utterance_whose_audio_does_not_come_again_ends_with_what_was_promised() -> None:
    rig = Rig(checkpoint=Checkpoint(sample=512, utt=4, opened=True, stable="w1 w2")).finish("device_lost")
    assert [(final.utt, final.text, final.reason) for final in rig.finals] == [(4, "w1 w2", "device_lost")]
    rig.feed(stream(*sentence(1, 3), PAUSE))
    assert rig.finals[1].utt == 5


def test_a_resumed_utterance_without_any_speech_ends() -> None:
    rig = Rig(checkpoint=Checkpoint(sample=0, utt=4, opened=True)).feed(stream(Piece(5_000)))
    assert [(final.utt, final.text) for final in rig.finals] == [(4, "")]
