"""The same model folder through sherpa-onnx and through cosyd: same tokens at the same times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sherpa_oracle import Found, Oracle

from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.streaming.model import Search, StreamingModel
from cosyd.asr.streaming.streams import Streams
from cosyd.asr.streaming.tokens import read_tokens

Audio = NDArray[np.float32]
TRANSDUCERS = ("zipformer2", "zipformer", "conformer", "lstm")
CTC = ("zipformer2-ctc", "wenet-ctc", "nemo-ctc")
BEAM = {"decoding_method": "modified_beam_search", "max_active_paths": 4}
FolderOf = Callable[[str], Path]


TIE = 1e-5  # in log-probability a token: float32 cannot tell which of two such readings is the better


def found(streams: Streams, slot: int) -> list[Found]:
    """The best reading, and those that are as good."""
    best = streams.n_best(slot, 4)  # sherpa-onnx takes no boost back at the end
    tokens, frame_s = streams.model.tokens, streams.model.spec.frame_s
    return [
        Found(
            [tokens.pieces[token].replace("▁", " ") for token in hypothesis.tokens],
            [frame * frame_s for frame in hypothesis.frames],
        )
        for hypothesis in best
        if hypothesis.score >= best[0].score - TIE
    ]


def recognise(folder: Path, clips: Sequence[Audio], cuts: Sequence[int], search: Search) -> list[list[Found]]:
    """All clips as streams of one batch; each begins and ends on its own and comes in pieces of its own."""
    with StreamingModel.load(folder) as model:
        streams = Streams(model, search, capacity=len(clips))
        waiting = list(range(len(clips)))
        live: dict[int, tuple[int, int]] = {}  # slot -> clip, position
        results: dict[int, list[Found]] = {}
        while waiting or live:
            if waiting:  # one more joins every round
                live[streams.open()] = (waiting.pop(0), 0)
            for slot, (clip, position) in list(live.items()):
                piece = clips[clip][position : position + cuts[clip % len(cuts)]]
                streams.push(slot, piece)
                live[slot] = (clip, position + len(piece))
                if position + len(piece) >= len(clips[clip]):
                    streams.end(slot)
            streams.run(live)
            for slot, (clip, position) in list(live.items()):
                if position >= len(clips[clip]):
                    results[clip] = found(streams, slot)
                    streams.close(slot)
                    del live[slot]
        return [results[clip] for clip in range(len(clips))]


def tail_of(folder: Path, clip: Audio) -> int:
    with StreamingModel.load(folder) as model:
        return Streams(model).tail_samples(len(clip))


def check(ours: list[Found], theirs: Found, time_scale: float = 1.0) -> None:
    assert len(theirs.tokens) >= 5, "a model that says nothing proves nothing"
    same = next((reading for reading in ours if reading.tokens == theirs.tokens), ours[0])
    assert same.tokens == theirs.tokens
    np.testing.assert_allclose(same.times, np.array(theirs.times) * time_scale, atol=1e-4)


@pytest.mark.parametrize("family", [*TRANSDUCERS, *CTC, "zipformer2+int8", "zipformer2+fp16"])
def test_greedy_search_finds_what_sherpa_onnx_finds(
    family: str, folder_of: FolderOf, voices: list[Audio], oracle: Oracle
) -> None:
    folder = folder_of(family)
    (ours,) = recognise(folder, voices[:1], [1_234], Search())
    theirs = oracle(folder, family, voices[0], tail_of(folder, voices[0]))
    # sherpa-onnx counts 40 ms a frame whatever the model's subsampling is; NeMo's frames are 80 ms.
    check(ours, theirs, 2.0 if family == "nemo-ctc" else 1.0)


@pytest.mark.parametrize("streams", [3, 8])
@pytest.mark.parametrize("family", [*TRANSDUCERS, *CTC])
def test_streams_that_join_and_leave_at_different_times_do_not_disturb_each_other(
    family: str, streams: int, folder_of: FolderOf, voices: list[Audio], oracle: Oracle
) -> None:
    folder = folder_of(family)
    clips = voices[:streams]
    cuts = [160, 4_000, 5_121, 777, 16_000, 1_600, 512, 9_999]
    for clip, ours in zip(clips, recognise(folder, clips, cuts, Search()), strict=True):
        theirs = oracle(folder, family, clip, tail_of(folder, clip))
        check(ours, theirs, 2.0 if family == "nemo-ctc" else 1.0)


@pytest.mark.parametrize("family", ["zipformer2", "zipformer2-ctc"])
def test_real_speech_too(family: str, folder_of: FolderOf, speech: list[Audio], oracle: Oracle) -> None:
    folder = folder_of(family)
    for clip, ours in zip(speech, recognise(folder, speech, [512, 8_000, 1_111], Search()), strict=True):
        check(ours, oracle(folder, family, clip, tail_of(folder, clip)))


@pytest.mark.parametrize("chunk", [64, 128])
def test_longer_chunks(chunk: int, tmp_path: Path, voices: list[Audio], oracle: Oracle) -> None:
    import streaming_models as small

    folder = small.save_transducer(tmp_path / "model", "zipformer2", chunk=chunk)
    for clip in voices[:2]:
        (ours,) = recognise(folder, [clip], [3_333], Search())
        check(ours, oracle(folder, "zipformer2", clip, tail_of(folder, clip)))


@pytest.mark.parametrize("family", TRANSDUCERS)
def test_beam_search_finds_what_sherpa_onnx_finds(
    family: str, folder_of: FolderOf, voices: list[Audio], oracle: Oracle
) -> None:
    folder = folder_of(family)
    clips = voices[:3]
    for clip, ours in zip(clips, recognise(folder, clips, [777, 16_000, 512], Search(paths=4)), strict=True):
        tail = tail_of(folder, clip)
        check(ours, oracle(folder, family, clip, tail, **BEAM))


@pytest.mark.parametrize("family", ["zipformer2", "conformer"])
def test_hotwords_have_the_effect_that_they_have_in_sherpa_onnx(
    family: str, folder_of: FolderOf, voices: list[Audio], oracle: Oracle
) -> None:
    """Streams with and without hotwords, spelt in single characters, in one batch."""
    folder = folder_of(family)
    ids = read_tokens(folder / "tokens.txt").ids
    phrases = {"你好": 4.0, "世界声": 5.0, "好": 3.0}
    graph = ContextGraph([[ids[c] for c in phrase] for phrase in phrases], list(phrases.values()))
    written = "/".join(f"{phrase} :{score}" for phrase, score in phrases.items())
    changed = 0
    with StreamingModel.load(folder) as model:
        streams = Streams(model, Search(paths=4), capacity=6)
        slots = {streams.open(g): (clip, g) for clip in voices[:3] for g in (None, graph)}
        for slot, (clip, _) in slots.items():
            streams.push(slot, clip)
            streams.end(slot)
        streams.run(slots)
        for slot, (clip, g) in slots.items():
            tail = tail_of(folder, clip)
            plain = oracle(folder, family, clip, tail, **BEAM)
            boosted = oracle(folder, family, clip, tail, written, modeling_unit="cjkchar", **BEAM)
            check(found(streams, slot), plain if g is None else boosted)
            changed += plain.tokens != boosted.tokens
    assert changed, "the hotwords changed nothing"
