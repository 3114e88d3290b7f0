"""Moonshine's encoder on audio that grows: what it heard is kept, and what it says stays as good."""

from __future__ import annotations

import wave
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pytest

from cosyd.asr.moonshine import Moonshine
from cosyd.asr.moonshine_hearing import HOP, NOTHING, OPEN_FRAMES, POSITIONS, Hearing
from cosyd.asr.moonshine_networks import HEARINGS_KEPT, HostNetworks, open_on_processor
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.stable import word_key
from cosyd.engine.moonshine import cache_names, frames_of, past, present
from cosyd.engine.recipe import read_wav
from cosyd.models.stop import Stop, Stopped

RATE = 16_000
HEARD = present(cache_names("encoder")[-1])
FIRST = present(cache_names("encoder")[0])


@pytest.fixture(scope="module")
def folder(models_dir: Path) -> Path:
    return models_dir / "moonshine-tiny-en"


@pytest.fixture(scope="module")
def speech(models_dir: Path) -> np.ndarray:
    return read_wav(models_dir / "demo-speech" / "beckett.wav")[: 9 * RATE]


class Counted:
    """An encoder, and how much audio each run had."""

    def __init__(self, folder: Path) -> None:
        self.networks = open_on_processor(folder, "moonshine-tiny-en")
        self._run = self.networks._encoder.run
        self.samples: list[int] = []
        self.networks._encoder.run = self.run  # type: ignore[method-assign]

    def run(self, feeds, outputs=None):  # type: ignore[no-untyped-def]
        self.samples.append(feeds["input_values"].size)
        return self._run(feeds, outputs)


@pytest.fixture(scope="module")
def counted(folder: Path) -> Counted:
    return Counted(folder)


def two_cities(models_dir: Path) -> np.ndarray:
    with wave.open(str(models_dir / "demo-speech" / "two_cities.wav")) as file:
        rate = file.getframerate()
        audio = np.frombuffer(file.readframes(8 * rate), "<i2").astype(np.float32) / 32768
    return np.interp(np.arange(8 * RATE) * rate / RATE, np.arange(audio.size), audio).astype(np.float32)


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(found - expected)) / np.mean(np.square(expected))))


def test_heard_at_once_is_heard_as_before(counted: Counted, speech: np.ndarray) -> None:
    """Of audio of which nothing was heard, following is listening."""
    at_once = counted.networks.listen(speech)._heard
    followed = counted.networks.follow(speech, "other")._heard
    for name, value in at_once.items():
        np.testing.assert_array_equal(followed[name], value)


def test_frames_that_are_known_stay_and_are_not_encoded_again(counted: Counted, speech: np.ndarray) -> None:
    encoder, known, counted.samples = counted.networks._encoder, NOTHING, []
    lengths = range(RATE, speech.size + 1, RATE // 2)
    before: dict[str, np.ndarray] = {}
    for length in lengths:
        frames = known.frames
        heard, known = known.grown(encoder, speech[:length])
        assert heard[HEARD].shape[2] == frames_of(length)
        assert known.frames == frames_of(length) - OPEN_FRAMES
        assert known.moments.shape == (2, known.frames * POSITIONS)
        assert {value.shape[1] for value in known.own.values()} == {known.frames}
        if frames:
            np.testing.assert_array_equal(heard[HEARD][:, :, :frames], before[HEARD][:, :, :frames])
        before = heard
    new = [length - (frames_of(length - RATE // 2) - OPEN_FRAMES) * HOP for length in lengths[1:]]
    assert counted.samples == [lengths[0], *new]
    assert max(counted.samples) < 2 * RATE


def test_the_first_layer_s_view_of_new_frames_is_that_of_all_the_audio(
    counted: Counted, speech: np.ndarray
) -> None:
    """Convolutions and their mean and variance are exact; only what layers see of later audio is missing."""
    encoder = counted.networks._encoder
    _, known = NOTHING.grown(encoder, speech[: 4 * RATE])
    grown = known.encoded(encoder, speech)
    whole = NOTHING.encoded(encoder, speech)
    name = present("0.self.value")
    rest = slice(known.frames, None)
    assert distance(grown[name][:, rest], whole[name][:, rest]) < 0.01
    np.testing.assert_allclose(grown["moments"], whole["moments"][:, known.frames * POSITIONS :], atol=1e-5)
    heard = np.concatenate([known.heard[FIRST], grown[FIRST]], axis=2)
    assert distance(heard, whole[FIRST]) < 0.35


def test_it_says_of_grown_audio_what_it_says_of_all_at_once(folder: Path, models_dir: Path) -> None:
    model = Moonshine.load(folder)
    speech = two_cities(models_dir)
    (whole,) = model.transcribe([SegmentRequest(speech, quick=True, source="whole")])
    draft: tuple[int, ...] = ()
    for length in range(RATE // 2, speech.size + 1, RATE // 2):
        request = SegmentRequest(speech[:length], draft=draft, quick=True, source="mic")
        (grown,) = model.transcribe([request])
        draft = grown.tokens
    said, expected = ([word_key(word) for word in text.split()] for text in (grown.text, whole.text))
    alike = sum(block.size for block in SequenceMatcher(None, said, expected).get_matching_blocks())
    assert len(expected) > 15
    assert alike >= max(len(said), len(expected)) - 2, (grown.text, whole.text)


def test_other_audio_is_heard_from_its_beginning(counted: Counted, speech: np.ndarray) -> None:
    networks = counted.networks
    networks.follow(speech[: 3 * RATE], "mic")
    counted.samples = []
    for audio in (speech[: 2 * RATE], speech[RATE : 4 * RATE], np.zeros(3 * RATE, np.float32)):
        networks.follow(audio, "mic")
    networks.follow(speech[: 3 * RATE], "another")
    assert counted.samples == [2 * RATE, 3 * RATE, 3 * RATE, 3 * RATE]


def test_of_many_sources_the_newest_are_kept(counted: Counted, speech: np.ndarray) -> None:
    networks: HostNetworks = counted.networks
    for number in range(HEARINGS_KEPT + 1):
        networks.follow(speech[:RATE], str(number))
    assert list(networks._hearings) == [str(number) for number in range(1, HEARINGS_KEPT + 1)]
    networks.follow(speech[: RATE + 512], "1")
    assert list(networks._hearings)[-1] == "1"


def test_a_partial_that_is_stopped_leaves_what_was_known(counted: Counted, speech: np.ndarray) -> None:
    networks = counted.networks
    networks.follow(speech[: 3 * RATE], "mic")
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped), stop.heeded():
        networks.follow(speech[: 4 * RATE], "mic")
    counted.samples = []
    networks.follow(speech[: 4 * RATE], "mic")
    assert counted.samples[0] < 2.1 * RATE


def test_going_on_changes_nothing_of_what_was_known(counted: Counted, speech: np.ndarray) -> None:
    _, known = Hearing().grown(counted.networks._encoder, speech[: 2 * RATE])
    kept = {name: value.copy() for name, value in known.own.items()}
    known.grown(counted.networks._encoder, speech[: 3 * RATE])
    assert set(kept) == set(map(past, cache_names("self")))
    assert all(np.array_equal(value, known.own[name]) for name, value in kept.items())


def test_what_was_said_is_not_run_through_the_decoder_again(folder: Path, models_dir: Path) -> None:
    networks = open_on_processor(folder, "moonshine-tiny-en")
    speech = two_cities(models_dir)
    (said,) = Moonshine.load(folder).transcribe([SegmentRequest(speech[: 7 * RATE], quick=True)])
    known = len(said.tokens) - 4
    first = networks.follow(speech[: 7 * RATE], "mic")
    _, cache = first.begin(said.tokens)
    first.memory["said"] = said.tokens
    then = networks.follow(speech[: 7 * RATE + 512], "mic")
    assert then.memory["said"] == said.tokens
    all_at_once, whole = then.begin(said.tokens)
    resumed, grown = then.resume(cache, known, said.tokens)
    assert resumed.shape == (5, all_at_once.shape[1])
    assert distance(resumed, all_at_once[known:]) < 0.15
    assert resumed.argmax(axis=1)[:4].tolist() == all_at_once[known:].argmax(axis=1)[:4].tolist()
    assert {value.shape for value in grown.values()} == {value.shape for value in whole.values()}
    assert {value.shape[2] for value in cache.values()} == {1 + len(said.tokens)}
    assert networks.follow(speech[RATE : 5 * RATE], "mic").memory == {}
