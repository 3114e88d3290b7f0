"""Two passes: who gives which result, when the second is late, fails or doubts, and what is left behind."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from cosyd.asr.decode import DecodeResult
from cosyd.asr.decode_queue import DecodeStatistics
from cosyd.asr.hotwords import Rejected
from cosyd.asr.streaming.chunk import Chunk, LiveTranscript
from cosyd.asr.two_pass import TwoPassQueue
from cosyd.types import Transcript

STATISTICS = DecodeStatistics(0, 0, 0, 0, 0, 0.0, 0.0, None)


class Queue:
    """Takes what is submitted and gives what it is told to."""

    def __init__(self):
        self.taken, self.given, self.forgotten = [], [], []
        self.room = True
        self.rejects = ()
        self.numbers = STATISTICS

    def submit(self, decode, timeout_s=None):
        if self.room:
            self.taken.append(decode)
        return self.room

    def has_room(self, source):
        return self.room

    def results(self):
        given, self.given = self.given, []
        return given

    def give(self, decode, transcript, error=None):
        self.given.append(DecodeResult(decode, transcript, error, 0.0))

    def forget_source(self, source):
        self.forgotten.append(source)

    def unusable(self, hotwords):
        return self.rejects

    def statistics(self):
        return self.numbers


class Rig:
    def __init__(self, within_s=1.0):
        self.first, self.second, self.now = Queue(), Queue(), 0.0
        self.wake = threading.Event()
        self.queue = TwoPassQueue(
            self.first, self.second, "accurate", within_s=within_s, wake=self.wake, clock=lambda: self.now
        )

    def say(self, value, ends="", source="mic", utt=0):
        kind = "final" if ends else "partial"
        audio = np.full(1_600, value, np.float32)
        chunk = Chunk(1, source, utt, kind, audio, 0, 1_600, 0, 3, ends=ends, origin_s=2.0)
        assert self.queue.submit(chunk)
        return chunk

    def end(self, **where):
        """An utterance of two chunks, of which the first pass has said "rough"."""
        self.say(0.1, **where)
        last = self.say(0.2, ends="utterance", **where)
        self.first.give(last, LiveTranscript("rough", stable="rough"))
        return last


def texts(results):
    return [(result.transcript.text, result.transcript.model) for result in results]


def test_the_second_pass_hears_the_whole_utterance_and_gives_its_final():
    rig = Rig()
    last = rig.end()
    assert rig.queue.results() == []
    (second,) = rig.second.taken
    np.testing.assert_array_equal(second.audio, np.repeat(np.float32([0.1, 0.2]), 1_600))
    assert (second.kind, second.origin_s) == ("final", 2.0)
    rig.second.give(second, Transcript("fine", conf=0.9))
    (result,) = rig.queue.results()
    assert result.decode is last
    assert texts([result]) == [("fine", "accurate")]


def test_partials_are_the_first_passes_and_promise_nothing():
    rig = Rig()
    chunk = rig.say(0.1)
    rig.first.give(chunk, LiveTranscript("rou", stable="rou"))
    (result,) = rig.queue.results()
    assert (result.transcript.text, result.transcript.stable) == ("rou", "")
    assert rig.second.taken == []


@pytest.mark.parametrize(
    ("transcript", "error"),
    [(None, "broken"), (Transcript(""), None), (Transcript("made up", conf=0.1), None)],
)
def test_a_second_pass_that_fails_or_doubts_itself_does_not_count(transcript, error):
    rig = Rig()
    rig.end()
    rig.queue.results()
    rig.second.give(rig.second.taken[0], transcript, error)
    assert texts(rig.queue.results()) == [("rough", "")]


def test_a_second_pass_that_is_late_does_not_count_and_is_not_published_twice():
    rig = Rig(within_s=1.0)
    rig.end()
    assert rig.queue.results() == []
    rig.now = 0.9
    assert rig.queue.results() == []
    assert not rig.queue.wait(0.05)
    assert rig.queue.wait(0.2)  # late before that
    rig.now = 1.0
    assert texts(rig.queue.results()) == [("rough", "")]
    rig.second.give(rig.second.taken[0], Transcript("fine", conf=0.9))
    assert rig.queue.results() == []
    assert rig.queue.late == 1


def test_without_a_limit_the_second_pass_is_waited_for():
    rig = Rig(within_s=None)
    rig.end()
    rig.queue.results()
    rig.now = 1e6
    assert rig.queue.results() == []


def test_a_second_queue_that_is_full_is_done_without_and_holds_the_audio_back():
    rig = Rig()
    rig.end()
    rig.second.room = False
    assert not rig.queue.has_room("mic")
    assert texts(rig.queue.results()) == [("rough", "")]


def test_the_second_pass_counts_when_the_first_fails():
    rig = Rig()
    last = rig.say(0.2, ends="utterance")
    rig.first.give(last, None, "broken")
    rig.queue.results()
    rig.second.give(rig.second.taken[0], Transcript("fine", conf=0.9))
    (result,) = rig.queue.results()
    assert (result.transcript.text, result.error) == ("fine", None)


def test_sources_and_utterances_do_not_mix():
    rig = Rig()
    rig.say(0.5, source="other")
    rig.end(utt=0)
    rig.end(utt=1)
    rig.say(0.6, ends="utterance", source="other")
    rig.first.give(rig.first.taken[-1], LiveTranscript("theirs"))
    rig.queue.results()
    assert [decode.audio.size for decode in rig.second.taken] == [3_200] * 3
    for decode in reversed(rig.second.taken):
        rig.second.give(decode, Transcript(f"{decode.source}{decode.utt}", conf=0.9))
    assert [(r.decode.source, r.decode.utt, r.transcript.text) for r in rig.queue.results()] == [
        ("other", 0, "other0"),
        ("mic", 1, "mic1"),
        ("mic", 0, "mic0"),
    ]


def test_nothing_is_kept_of_a_source_that_is_gone():
    rig = Rig()
    rig.end()
    rig.queue.results()
    rig.say(0.1, utt=1)
    rig.say(0.1, utt=1, ends="utterance")
    rig.say(0.1, utt=2)
    rig.queue.forget_source("mic")
    rig.second.give(rig.second.taken[0], Transcript("fine", conf=0.9))
    assert rig.queue.results() == []
    assert (rig.queue._open, rig.queue._ended, rig.queue._waiting) == ({}, {}, {})
    assert rig.first.forgotten == rig.second.forgotten == ["mic"]


def test_a_hotword_is_rejected_when_neither_pass_can_favour_it():
    rig = Rig()
    rig.first.rejects = (Rejected("one", "x"), Rejected("both", "y"))
    rig.second.rejects = (Rejected("both", "z"), Rejected("two", "z"))
    assert rig.queue.unusable(()) == (Rejected("both", "y"),)


def test_statistics_are_those_of_both():
    rig = Rig()
    rig.first.numbers = replace(STATISTICS, waiting_finals=1, decoded=5, busy_since=7.0, audio_s=3.0)
    rig.second.numbers = replace(STATISTICS, waiting_finals=2, decoded=1, busy_since=6.0, audio_s=9.0)
    both = rig.queue.statistics()
    assert (both.waiting_finals, both.decoded, both.busy_since, both.audio_s) == (3, 6, 6.0, 3.0)
