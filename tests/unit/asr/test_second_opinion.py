"""What is decoded twice, which result counts, and what becomes of times."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.asr.decode import Decode
from cosyd.asr.decode_queue import DecodeQueue
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.second_opinion import LEAD_MS, TAIL_MS, reconsidered
from cosyd.errors import InferenceError
from cosyd.types import Backend, Transcript, Word

LEAD = 16 * LEAD_MS
AUDIO = np.arange(16_000, dtype=np.float32) / 16_000
LIMIT_S = 30.0
UNSURE = 0.8


class Opinions:
    """Answers in turn, and keeps what it was asked."""

    family = "segment"
    name = "opinions"
    backend = Backend("rule", "a test")
    limit_s = LIMIT_S

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def transcribe(self, requests):
        self.asked += requests
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def unusable(self, hotwords):
        return ()

    def warm_up(self):
        pass

    def close(self):
        pass


def said(text, conf, *words):
    return Transcript(text, (1, 2), conf, words)


def again(first, *answers, request=None, limit_s=LIMIT_S):
    opinions = Opinions(*answers)
    result = reconsidered(
        first,
        request or SegmentRequest(AUDIO, prompt="so"),
        opinions.transcribe,
        unsure=UNSURE,
        limit_s=limit_s,
    )
    return result, opinions.asked


@pytest.mark.parametrize("conf", [UNSURE, 0.95, None])
def test_who_is_sure_or_cannot_tell_is_not_asked_again(conf):
    first = said("so far", conf)
    assert again(first) == (first, [])


@pytest.mark.parametrize(("conf", "counts"), [(0.75, True), (0.7, False), (0.3, False), (None, False)])
def test_the_surer_result_counts(conf, counts):
    first, second = said("so fur", 0.7), said("so far", conf)
    result, asked = again(first, second)
    assert result == (second if counts else first)
    assert len(asked) == 1


def test_the_second_decode_hears_a_mirrored_beginning_and_all_else_as_before():
    _, (request,) = again(said("so fur", 0.7), said("so far", 0.75))
    np.testing.assert_array_equal(request.audio[LEAD:], AUDIO)
    np.testing.assert_array_equal(request.audio[:LEAD], AUDIO[:LEAD][::-1])
    assert (request.prompt, request.draft) == ("so", (1, 2))


def test_times_of_words_are_those_of_the_audio():
    result, _ = again(said("a", 0.7), said("b", 0.75, Word("b", 0.5, 0.75, 0.9)))
    (word,) = result.words
    assert (word.start, word.end) == pytest.approx((0.5 - LEAD_MS / 1000, 0.75 - LEAD_MS / 1000))


def test_audio_shorter_than_the_beginning_is_mirrored_whole():
    _, (asked,) = again(said("a", 0.7), said("b", 0.75), request=SegmentRequest(AUDIO[:100]))
    np.testing.assert_array_equal(asked.audio, np.concatenate((AUDIO[:100][::-1], AUDIO[:100])))


def test_a_second_decode_that_fails_or_does_not_fit_is_done_without():
    first = said("a", 0.7)
    assert again(first, InferenceError("no"))[0] is first
    assert again(first, limit_s=1.1) == (first, [])


@pytest.mark.parametrize(("conf", "counts"), [(0.7, True), (0.6, False), (None, False)])
def test_what_is_very_much_in_doubt_is_heard_a_third_time_with_a_longer_end(conf, counts):
    second, third = said("b", 0.62, Word("b", 0.5, 0.75, 0.9)), said("c", conf, Word("c", 0.5, 0.75, 0.9))
    result, (_, asked) = again(said("a", 0.5), second, third)
    assert result.text == ("c" if counts else "b")
    assert result.words[0].start == pytest.approx(0.5 if counts else 0.5 - LEAD_MS / 1000)
    np.testing.assert_array_equal(asked.audio[: AUDIO.size], AUDIO)
    assert not asked.audio[AUDIO.size :].any()
    assert asked.audio.size == AUDIO.size + 16 * TAIL_MS


def test_the_second_result_stands_when_the_third_decode_fails():
    result, _ = again(said("a", 0.5), said("b", 0.6), InferenceError("no"))
    assert result.text == "b"


@pytest.mark.parametrize(("kind", "times"), [("partial", 1), ("speculative", 2), ("final", 2)])
def test_partials_are_decoded_once_and_finals_twice_if_in_doubt(kind, times):
    opinions = Opinions(said("a", 0.7), said("b", 0.75))
    decode = Decode(1, "mic", 0, kind, AUDIO, 0, AUDIO.size, 0, 31)
    with DecodeQueue(opinions, second_opinion=UNSURE) as queue:
        queue.submit(decode)
        assert queue.wait(20)
        (result,) = queue.results()
    assert result.transcript.text == ("b" if times == 2 else "a")
    assert len(opinions.asked) == times
