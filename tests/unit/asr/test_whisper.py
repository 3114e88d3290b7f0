"""Whisper's recogniser against a network that says what it is told to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from cosyd.asr.hotwords import Hotword
from cosyd.asr.recognizer import Patient, SegmentRequest
from cosyd.asr.whisper import APART, BEFORE_LIMIT, TOKENS_MARGIN, TOKENS_PER_S, Whisper
from cosyd.asr.whisper_features import LONGEST
from cosyd.asr.whisper_network import Alignment, Readings
from cosyd.asr.whisper_tokens import _BYTES, Vocabulary
from cosyd.errors import ConfigError, InferenceError

WRITTEN = {byte: character for character, byte in _BYTES.items()}
SINGLE = [WRITTEN[byte] for byte in range(256)]  # as Whisper has them, in another order
NAMES = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|zh|>", "<|transcribe|>"]
NAMES += ["<|startofprev|>", "<|notimestamps|>"]


def written(*pieces: str) -> list[str]:
    """Pieces and their beginnings, from which they are joined, as the vocabulary has them."""
    contents = (piece.encode()[:size] for piece in pieces for size in range(2, len(piece.encode()) + 1))
    return ["".join(WRITTEN[byte] for byte in content) for content in dict.fromkeys(contents)]


PIECES = written(" the", " cat", " sat", "你", "好")
VOCABULARY = Vocabulary([*SINGLE, *PIECES, *NAMES])
ENGLISH = Vocabulary([*SINGLE, *PIECES, "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"])
END, START, EN, ZH, TRANSCRIBE, BEFORE, NO_TIMES = (VOCABULARY[name] for name in NAMES)
SECOND = 16_000
RNG = np.random.default_rng(5)


class Network:
    """Reads ``script`` (texts, the likeliest first) after any prompt; text that the prompt forces is not
    said again. Every token takes 0.1 s, its probability is that of ``doubts``, by text."""

    mels = 80
    runs_on = "a test"

    def __init__(
        self,
        *script: str,
        multilingual: bool = True,
        score: float = -0.1,
        no_speech: float = 0.01,
        spoken: Sequence[tuple[str, float]] = (("<|en|>", 0.9), ("<|zh|>", 0.1)),
        doubts: dict[str, float] | None = None,
    ) -> None:
        self.script = script
        self.multilingual = multilingual
        self.score, self.no_speech = score, no_speech
        self.spoken = list(spoken)
        self.doubts = doubts or {}
        self.after: dict[str, str] = {}  # what follows a beginning that is forced
        self.calls: list[dict[str, object]] = []
        self.features: list[np.ndarray] = []
        self.closed = 0

    def encode(self, features: np.ndarray) -> str:
        self.features.append(features)
        return "encoded"

    def languages(self, encoded: object) -> list[tuple[str, float]]:
        assert encoded == "encoded"
        return self.spoken

    def read(
        self, encoded: object, prompt: Sequence[int], *, beam: int, most: int, apart: int = 0
    ) -> Readings:
        self.calls.append({"prompt": list(prompt), "beam": beam, "most": most, "apart": apart})
        begin = NO_TIMES if self.multilingual else ENGLISH["<|notimestamps|>"]
        forced = VOCABULARY.decode(prompt[list(prompt).index(begin) + 1 :])
        texts = [self._said(text, forced, apart) for text in self.script or ("",)]
        if forced in self.after:
            texts = [self._said(self.after[forced], "", apart)]
        tokens = tuple(tuple(VOCABULARY.encode(text)[:most]) for text in texts[:beam])
        scores = tuple(self.score - i for i in range(len(tokens)))
        return Readings(tokens, scores, self.no_speech)

    def _said(self, text: str, forced: str, apart: int) -> str:
        if apart and len(words := text.split()) > 4:
            text = " " + " ".join(words[:3])
        return text[len(forced) :] if forced else text

    def align(self, encoded: object, start: Sequence[int], text: Sequence[int], frames: int) -> Alignment:
        self.calls.append({"start": list(start), "frames": frames})
        probs = [self.doubts.get(VOCABULARY.decode([token]), 0.9) for token in text]
        return Alignment(np.array(probs), np.arange(len(text) + 1) / 10)

    def close(self) -> None:
        self.closed += 1


def audio(seconds: float = 2.0) -> np.ndarray:
    return (RNG.standard_normal(round(seconds * SECOND)) * 0.1).astype(np.float32)


def whisper(network: Network, **options: object) -> Whisper:
    vocabulary = VOCABULARY if network.multilingual else ENGLISH
    return Whisper("whisper-base", network, vocabulary, **options)  # type: ignore[arg-type]


def heard(network: Network, *, seconds: float = 2.0, **request: object):
    options = {name: request.pop(name) for name in ("language", "beam") if name in request}
    (transcript,) = whisper(network, **options).transcribe([SegmentRequest(audio(seconds), **request)])  # type: ignore[arg-type]
    return transcript


# --- what is asked -----------------------------------------------------------------------------------


def test_the_prompt_names_the_language_asked_for() -> None:
    network = Network(" the cat")
    transcript = heard(network, language="zh")
    assert network.calls[0]["prompt"] == [START, ZH, TRANSCRIBE, NO_TIMES]
    assert (transcript.text, transcript.language, transcript.language_conf) == ("the cat", "zh", None)


def test_auto_takes_the_likeliest_language_and_tells_how_sure_it_is() -> None:
    network = Network(" the cat", spoken=[("<|zh|>", 0.7), ("<|en|>", 0.3)])
    transcript = heard(network)
    assert network.calls[0]["prompt"] == [START, ZH, TRANSCRIBE, NO_TIMES]
    assert (transcript.language, transcript.language_conf) == ("zh", 0.7)


def test_of_several_languages_the_likeliest_is_taken_and_others_do_not_count() -> None:
    network = Network(" the cat", spoken=[("<|th|>", 0.5), ("<|zh|>", 0.3), ("<|en|>", 0.1)])
    transcript = heard(network, language="en,zh")
    assert (transcript.language, transcript.language_conf) == ("zh", pytest.approx(0.75))
    network = Network(" the cat", spoken=[("<|th|>", 1.0)])
    assert heard(network, language="en,zh").language_conf == 0


def test_a_model_of_english_is_not_asked_for_languages() -> None:
    network = Network(" the cat", multilingual=False)
    transcript = heard(network)
    assert network.calls[0]["prompt"] == [ENGLISH["<|startoftranscript|>"], ENGLISH["<|notimestamps|>"]]
    assert (transcript.language, transcript.language_conf) == ("en", None)


@pytest.mark.parametrize(
    ("multilingual", "language", "hears"), [(False, "zh", "English only"), (True, "yue", "2 languages")]
)
def test_a_language_that_the_model_does_not_hear(multilingual: bool, language: str, hears: str) -> None:
    with pytest.raises(ConfigError, match=rf"asr\.language: '{language}'.*{hears}"):
        whisper(Network(multilingual=multilingual), language=language)


@pytest.mark.parametrize(("seconds", "window"), [(1.0, 700), (0.505, 650), (25.0, LONGEST)])
def test_six_seconds_of_silence_follow_up_to_the_whole_window(seconds: float, window: int) -> None:
    network = Network(" the cat")
    heard(network, seconds=seconds)
    assert network.features[0].shape == (80, window)
    silence = network.features[0][:, round(seconds * 100) + 3 :]
    assert silence.size == 0 or np.ptp(silence) == 0


def test_more_than_the_window_is_refused() -> None:
    with pytest.raises(InferenceError, match=r"31\.0 s of audio"):
        heard(Network(" the cat"), seconds=31.0)


def test_no_more_tokens_than_can_have_been_said() -> None:
    network = Network(" the cat" * 50)
    transcript = heard(network, seconds=1.0)
    assert network.calls[0]["most"] == TOKENS_PER_S + TOKENS_MARGIN
    assert len(transcript.tokens) <= TOKENS_PER_S + TOKENS_MARGIN


def test_partials_are_read_greedily_and_finals_along_a_beam() -> None:
    network = Network(" the cat", " the cat sat", " the cat")
    assert heard(network, beam=4, quick=True).others == ()
    assert heard(network, beam=4).others == ("the cat sat",)
    assert [call["beam"] for call in network.calls if "beam" in call] == [1, 4]


# --- promises and hotwords ---------------------------------------------------------------------------


def test_a_promise_that_the_free_result_keeps_costs_nothing() -> None:
    network = Network(" the cat sat")
    assert heard(network, prompt="the cat").text == "the cat sat"
    assert len([call for call in network.calls if "beam" in call]) == 1


def test_a_promise_that_it_breaks_is_forced() -> None:
    network = Network(" a cat sat")
    transcript = heard(network, prompt="the")
    assert network.calls[1]["prompt"] == [START, EN, TRANSCRIBE, NO_TIMES, *VOCABULARY.encode(" the")]
    assert transcript.text.startswith("the")
    assert VOCABULARY.decode(transcript.tokens).strip() == transcript.text


def test_what_goes_astray_after_a_promise_is_read_again_in_the_whole_window_too() -> None:
    """The free result is fine; made to begin with the promise, it does not end."""
    network = Network(" a cat")
    network.after = {" the": " sat" * 40}
    transcript = heard(network, seconds=1.0, prompt="the")
    assert [features.shape[1] for features in network.features] == [700, LONGEST]
    assert [call["apart"] for call in network.calls if "apart" in call] == [0, 0, 0, 0, APART]
    assert transcript.text == "the sat sat sat"


def test_hotwords_stand_before_the_transcript() -> None:
    network = Network(" the cat")
    heard(network, hotwords=(Hotword("cat"), Hotword("sat", 3.0)))
    before = [BEFORE, *VOCABULARY.encode(" cat, sat")]
    assert network.calls[0]["prompt"] == [*before, START, EN, TRANSCRIBE, NO_TIMES]


def test_hotwords_for_which_there_is_no_room_are_named() -> None:
    phrases = [Hotword(f"number{i:03}") for i in range(40)]
    network = Network(" the cat")
    recogniser = whisper(network)
    refused = recogniser.unusable(phrases)
    assert 0 < len(refused) < 40
    assert refused[0].phrase == phrases[-len(refused)].phrase
    assert f"{BEFORE_LIMIT} tokens" in refused[0].reason
    recogniser.transcribe([SegmentRequest(audio(), hotwords=tuple(phrases))])
    prompt = network.calls[0]["prompt"]
    assert isinstance(prompt, list)
    assert prompt.index(START) <= BEFORE_LIMIT


# --- nothing is made up ------------------------------------------------------------------------------


def test_silence_is_not_even_shown_to_the_network() -> None:
    network = Network(" the cat")
    (transcript,) = whisper(network).transcribe([SegmentRequest(np.full(SECOND, 1e-5, np.float32))])
    assert (transcript.text, network.features) == ("", [])


@pytest.mark.parametrize(
    ("score", "no_speech", "text"), [(-0.9, 0.9, ""), (-0.1, 0.9, "the cat"), (-0.9, 0.1, "the cat")]
)
def test_nobody_speaking_is_believed_where_the_text_is_unsure(score, no_speech, text) -> None:
    assert heard(Network(" the cat", score=score, no_speech=no_speech)).text == text


@pytest.mark.parametrize("said", ["", " [Music]", " (the cat)", "♪♪", " Thanks for watching!"])
def test_what_subtitles_have_in_silence_is_no_text(said: str) -> None:
    transcript = heard(Network(said))
    assert (transcript.text, transcript.words, transcript.language) == ("", (), "en")


def test_a_loop_is_read_again_in_the_whole_window_and_then_without_repeats() -> None:
    network = Network(" the cat sat" * 5)
    assert heard(network).text == "the cat sat"
    assert [features.shape[1] for features in network.features] == [800, LONGEST]
    assert [call["apart"] for call in network.calls if "apart" in call] == [0, 0, APART]


def test_a_loop_in_which_nobody_speaks_is_not_read_again() -> None:
    network = Network(" the cat sat" * 5, score=-0.9, no_speech=0.9)
    assert heard(network).text == ""
    assert len(network.features) == 1


def test_what_does_not_end_is_read_again_in_the_whole_window() -> None:
    network = Network("abcdefghijklmnopqrstuvwxyz" * 2)
    heard(network, seconds=1.0)
    assert [features.shape[1] for features in network.features] == [700, LONGEST]


# --- words -------------------------------------------------------------------------------------------


def test_words_have_the_times_of_their_tokens_and_the_least_confidence() -> None:
    transcript = heard(Network(" the cats", doubts={"s": 0.4}), words=True)
    assert [(w.w, w.start, w.end, w.conf) for w in transcript.words] == [
        ("the", 0.0, 0.1, 0.9),
        ("cats", 0.1, 0.3, 0.4),
    ]
    assert transcript.sure == (0.9, 0.4)
    assert transcript.conf == pytest.approx(math.exp(-0.1))


def test_characters_of_chinese_are_words_with_their_punctuation() -> None:
    """A character without a piece of its own is three of bytes."""
    transcript = heard(Network("你好，界。", doubts={"好": 0.5}), language="zh", words=True)
    assert transcript.text == "你好，界。"
    assert [(w.w, w.start) for w in transcript.words] == [("你", 0.0), ("好，", 0.1), ("界。", 0.5)]
    assert [w.conf for w in transcript.words] == [0.9, 0.5, 0.9]
    assert transcript.sure == (0.5,)


def test_without_being_asked_there_are_no_words_but_how_sure_each_is() -> None:
    transcript = heard(Network(" the cat"), words=False)
    assert (transcript.words, transcript.sure) == ((), (0.9, 0.9))


def test_warm_up_and_close() -> None:
    network = Network(" the cat")
    recogniser = whisper(network)
    assert isinstance(recogniser, Patient)
    assert recogniser.patience_s >= 60
    recogniser.warm_up()
    assert len(network.features) == 1
    recogniser.close()
    assert network.closed == 1
    assert (recogniser.backend.name, recogniser.backend.reason) == ("cpu", "a test")
