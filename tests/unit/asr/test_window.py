"""What partials hear of a long utterance: a bounded stretch, cut between words, and the same text."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from asr_fakes import SCALE, FakeRecognizer, Piece, Rig, blocks_of, broken_promises, sentence, stream

from cosyd.asr import window as window_module
from cosyd.asr.endpoint import SPLIT_WINDOW_MS
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.window import Window, beginning, joined
from cosyd.asr.words import placed
from cosyd.config.schema import AsrConfig, EndpointConfig
from cosyd.spec import FRAME
from cosyd.types import Transcript, Word

RATE = FRAME.rate_hz
SECOND = blocks_of(1000)
WINDOW_MS, KEEP_MS = 6_000, 3_000  # shorter than it is used, so that it moves often
WINDOW_BLOCKS = FRAME.blocks(WINDOW_MS)


@pytest.fixture(autouse=True)
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "WINDOW_BLOCKS", WINDOW_BLOCKS)
    monkeypatch.setattr(window_module, "KEEP_BLOCKS", FRAME.blocks(KEEP_MS))


class Timed(FakeRecognizer):
    """Knows when each word was said, if it is asked; two tokens a word."""

    def _one(self, request: SegmentRequest) -> Transcript:
        said = super()._one(request)
        names = said.text.split()
        tokens = tuple(int(name[1:]) for name in names for _ in range(2))
        times = self._times(request) if request.words else ()
        sure = (0.95,) * len(names)
        return Transcript(said.text, tokens, 0.9, times, sure, counts=(2,) * len(names))

    def _times(self, request: SegmentRequest) -> tuple[Word, ...]:
        ids = np.rint(request.audio * SCALE).astype(int)
        edges = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), ids.size]
        return tuple(Word(f"w{ids[a]}", a / RATE, b / RATE, 0.95) for a, b in pairwise(edges) if ids[a])


class LongRig(Rig):
    """Hands over all of a request, and places words as the decode queue does."""

    def _take(self, actions):  # type: ignore[no-untyped-def]
        for action in actions:
            if not hasattr(action, "audio"):
                self._record([action])
                continue
            self.decodes.append(action)
            request = SegmentRequest(
                action.audio,
                action.prompt,
                action.draft,
                words=action.words,
            )
            result = placed(self.recognizer.transcribe([request])[0], action.origin_s)
            self._due.append((self.fed + self.delay, action, result))


def talk(seconds: int, recognizer: FakeRecognizer, delay: int = 2, **asr: object) -> LongRig:
    """Somebody speaks without a pause, five words a second; and then is silent."""
    rig = LongRig(
        recognizer,
        delay,
        endpoint=EndpointConfig(longest_ms=60_000),
        asr=AsrConfig(**asr),  # type: ignore[arg-type]
    )
    rig.feed(stream(Piece(500), *sentence(1, seconds * 5), Piece(2000)))
    return rig


def seconds_of(rig: Rig, kind: str) -> list[float]:
    return [decode.audio.size / RATE for decode in rig.decodes if decode.kind == kind]


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("delay", [0, 2, 20])
def test_partials_of_a_long_utterance_hear_a_bounded_stretch(words: bool, delay: int) -> None:
    rig = talk(28, Timed(), delay, words=words)
    period = AsrConfig().partial_ms + (delay + 2) * FRAME.block_ms
    heard = seconds_of(rig, "partial")
    assert len(heard) > 80
    most = max(WINDOW_MS + 2 * period, SPLIT_WINDOW_MS + period)  # so much is new after a split
    assert max(heard) <= most / 1000
    # Every later second of speech costs as much as the seconds before it: the encoder's work is linear.
    half = len(heard) // 2
    assert sum(heard[half:]) <= 1.2 * sum(heard[:half])


def test_without_times_of_words_partials_hear_everything() -> None:
    heard = seconds_of(talk(20, FakeRecognizer()), "partial")
    assert max(heard) > 19


@pytest.mark.parametrize("delay", [0, 2, 20])
def test_texts_are_those_of_the_whole_utterance(delay: int) -> None:
    rig = talk(25, Timed(), delay)
    partials = [event.text.split() for event in rig.events if type(event).__name__ == "Partial"]
    everything = [f"w{i}" for i in range(1, 126)]
    assert all(text == everything[: len(text)] for text in partials)
    assert rig.text.split() == everything
    assert not broken_promises(rig.events)


def test_a_final_hears_everything_and_depends_on_nothing_else() -> None:
    last = [decode for decode in talk(20, Timed()).decodes if decode.kind != "partial"][-1]
    assert last.audio.size / RATE > 20
    assert last.draft == ()


def test_the_draft_of_a_partial_is_of_its_stretch() -> None:
    tokens = tuple(i for i in range(1, 101) for _ in range(2))
    windows = [
        (decode.window, decode.draft)
        for decode in talk(20, Timed()).decodes
        if decode.window is not None and decode.window.start
    ]
    assert len(windows) > 30
    for window, draft in windows:
        first = len(window.said.tokens)
        assert window.said.tokens == tokens[:first]
        assert draft == tokens[first : first + len(draft)]
        assert draft


def spoken(*names: str, each_s: float = 1.0, gap_before: str = "") -> tuple[Word, ...]:
    """One word after the other; before ``gap_before`` a pause of half a second."""
    words, at = [], 0.0
    for name in names:
        at += 0.5 if name == gap_before else 0.0
        words.append(Word(name, at, at + each_s))
        at += each_s
    return tuple(words)


def result(words: tuple[Word, ...]) -> Transcript:
    return Transcript(" ".join(word.w for word in words), words=words)


def test_a_window_that_is_not_full_stays() -> None:
    window = Window(3)
    assert window.moved(result(spoken(*"abcde")), 3 + WINDOW_BLOCKS, 0.0) is window


def test_it_moves_to_the_longest_pause_near_the_latest_place() -> None:
    words = spoken(*"abcdefgh", gap_before="e")
    end = 100 + 9 * SECOND
    moved = Window(100, Transcript("x y")).moved(result(words), end, 0.0)
    assert moved.said.text == "x y a b c d"
    assert 100 + blocks_of(4_000) <= moved.start <= 100 + blocks_of(4_500)
    assert end - moved.start >= blocks_of(KEEP_MS)


def test_times_are_of_the_source_clock() -> None:
    shifted = tuple(Word(word.w, word.start + 50, word.end + 50) for word in spoken(*"abcdefgh"))
    assert Window(10).moved(result(shifted), 10 + 8 * SECOND, 50.0) == Window(10).moved(
        result(spoken(*"abcdefgh")), 10 + 8 * SECOND, 0.0
    )


@pytest.mark.parametrize(
    "transcript",
    [
        Transcript(""),
        Transcript("a b c"),  # no times
        result(spoken("a")),  # nothing to cut between
        result(spoken("a", "b", each_s=7.0)),  # too near to the end
    ],
)
def test_it_stays_where_there_is_no_place_to_cut(transcript: Transcript) -> None:
    assert Window(5).moved(transcript, 5 + 9 * SECOND, 0.0) == Window(5)


def test_the_beginning_of_a_result_has_its_tokens() -> None:
    whole = Transcript("a b c", (1, 2, 3, 4), 0.5, sure=(0.1, 0.2, 0.3), counts=(1, 2, 1))
    first = beginning(whole, 2)
    assert (first.text, first.tokens, first.sure, first.counts) == ("a b", (1, 2, 3), (0.1, 0.2), (1, 2))
    assert joined(first, Transcript("c", (4,), 0.5, sure=(0.3,), counts=(1,))) == whole
