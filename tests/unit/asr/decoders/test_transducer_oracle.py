"""Transducer searches against sherpa-onnx, which runs the same folder of networks on the same audio."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sherpa_onnx
import transducer_folder as small

from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.transducer_beam import TransducerBeam
from cosyd.asr.decoders.transducer_greedy import TransducerGreedy
from cosyd.errors import InferenceError

CHUNK = small.SHIFT // small.SUBSAMPLING  # frames that one step of the encoder gives
FRAME_S = 0.04
TEMPERATURE = 2.0  # sherpa-onnx's default


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("transducer")
    small.build(path)
    return path


@pytest.fixture(scope="module")
def recordings(folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """(audio, what the encoder says) of three recordings of noise that comes and goes, 3 to 6 s."""
    found = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        loud = np.repeat(random.random(30 + 15 * seed) ** 2, small.RATE_HZ // 10)
        audio = (random.normal(size=len(loud)) * 0.1 * loud).astype(np.float32)
        found.append((audio, small.encode(folder, audio)))
    return found


def recognizer(folder: Path, method: str, **settings: Any) -> sherpa_onnx.OnlineRecognizer:
    return sherpa_onnx.OnlineRecognizer.from_transducer(
        tokens=str(folder / "tokens.txt"),
        encoder=str(folder / "encoder.onnx"),
        decoder=str(folder / "decoder.onnx"),
        joiner=str(folder / "joiner.onnx"),
        num_threads=1,
        decoding_method=method,
        **settings,
    )


def listen(peer: sherpa_onnx.OnlineRecognizer, audio: np.ndarray, reset_every: int = 0) -> Iterator[dict]:
    """The peer's results: of each ``reset_every`` chunks, and of the end."""
    stream = peer.create_stream()
    stream.accept_waveform(small.RATE_HZ, audio)
    stream.input_finished()
    chunks = 0
    while peer.is_ready(stream):
        peer.decode_stream(stream)
        chunks += 1
        if reset_every and chunks % reset_every == 0:
            yield json.loads(peer.get_result_as_json_string(stream))
            peer.reset(stream)
    yield json.loads(peer.get_result_as_json_string(stream))


def search(
    decoder: TransducerGreedy | TransducerBeam,
    encoder_out: np.ndarray,
    graph: ContextGraph | None = None,
    chunk: int = CHUNK,
    reset_every: int = 0,
) -> Iterator[Any]:
    state = decoder.open(graph)
    for chunks, at in enumerate(range(0, len(encoder_out), chunk), start=1):
        decoder.decode(encoder_out[None, at : at + chunk], [state])
        if reset_every and chunks % reset_every == 0:
            yield decoder.n_best(state)[0]
            state = decoder.restart(state, graph)
    yield decoder.n_best(state)[0]


def assert_same(folder: Path, ours: Any, theirs: dict) -> None:
    names = [line.split()[0] for line in (folder / "tokens.txt").read_text().splitlines()]
    assert [names[token] for token in ours.tokens] == theirs["tokens"]
    assert np.array(ours.frames) * FRAME_S == pytest.approx(np.array(theirs["timestamps"]), abs=2e-3)
    assert ours.log_probs == pytest.approx(theirs["ys_probs"], abs=1e-4)


@pytest.mark.parametrize(("penalty", "reset_every"), [(0.0, 0), (1.0, 7)])
def test_greedy(folder: Path, recordings: list, penalty: float, reset_every: int) -> None:
    peer = recognizer(folder, "greedy_search", blank_penalty=penalty)
    decoder = TransducerGreedy(small.Networks(folder), blank_penalty=penalty, temperature=TEMPERATURE)
    tokens = 0
    for audio, encoder_out in recordings:
        theirs = list(listen(peer, audio, reset_every))
        ours = list(search(decoder, encoder_out, reset_every=reset_every))
        for mine, his in zip(ours, theirs, strict=True):
            assert_same(folder, mine, his)
            assert mine.trailing_blanks == his.get("num_trailing_blanks", mine.trailing_blanks)
            tokens += len(mine.tokens)
    assert tokens > 10


@pytest.mark.parametrize(
    ("beam", "penalty", "reset_every"), [(1, 0.0, 0), (2, 1.0, 0), (4, 0.0, 0), (4, 1.0, 7), (8, 0.0, 7)]
)
def test_beam(folder: Path, recordings: list, beam: int, penalty: float, reset_every: int) -> None:
    settings = {"max_active_paths": beam, "blank_penalty": penalty}
    peer = recognizer(folder, "modified_beam_search", **settings)
    decoder = TransducerBeam(
        small.Networks(folder), beam=beam, blank_penalty=penalty, temperature=TEMPERATURE
    )
    tokens = 0
    for audio, encoder_out in recordings:
        theirs = list(listen(peer, audio, reset_every))
        ours = list(search(decoder, encoder_out, reset_every=reset_every))
        for mine, his in zip(ours, theirs, strict=True):
            assert_same(folder, mine, his)
            tokens += len(mine.tokens)
    assert tokens > 10


def hotword_file(path: Path, phrases: list[tuple[int, ...]], scores: list[float | None]) -> Path:
    names = [chr(0x4E00 + i) for i in range(40)]
    lines = [
        "".join(names[token - 3] for token in phrase) + ("" if score is None else f" :{score}")
        for phrase, score in zip(phrases, scores, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


PHRASES = [(5, 6), (30, 14), (14, 30, 12), (6, 3, 30), (33,), (3, 33, 33, 5), (4, 14, 5)]
SCORED: list[float | None] = [None, 2.0, 0.5, 3.5, 1.0, 2.5, None]


@pytest.mark.parametrize(("beam", "scored", "reset_every"), [(2, True, 0), (4, False, 0), (4, True, 7)])
def test_hotwords(
    folder: Path, recordings: list, tmp_path: Path, beam: int, scored: bool, reset_every: int
) -> None:
    scores = SCORED if scored else [None] * len(PHRASES)
    peer = recognizer(
        folder,
        "modified_beam_search",
        max_active_paths=beam,
        hotwords_file=str(hotword_file(tmp_path / "hotwords.txt", PHRASES, scores)),
        hotwords_score=1.5,
        modeling_unit="cjkchar",
    )
    decoder = TransducerBeam(small.Networks(folder), beam=beam, temperature=TEMPERATURE)
    graph = ContextGraph(PHRASES, [1.5 if score is None else score for score in scores])
    changed = 0
    for audio, encoder_out in recordings:
        theirs = list(listen(peer, audio, reset_every))
        ours = list(search(decoder, encoder_out, graph, reset_every=reset_every))
        plain = list(search(decoder, encoder_out, reset_every=reset_every))
        for mine, his, without in zip(ours, theirs, plain, strict=True):
            assert_same(folder, mine, his)
            assert mine.boosts == pytest.approx(his["context_scores"], abs=1e-4)
            changed += mine.tokens != without.tokens
    assert changed


def test_batches_and_chunks_change_nothing(folder: Path, recordings: list) -> None:
    """Streams with different hotwords in one batch, in uneven chunks, one joining late and one leaving."""
    decoder = TransducerBeam(small.Networks(folder))
    graphs = [ContextGraph(PHRASES, 1.5), None, ContextGraph(PHRASES[:2], 3.0)]
    encoded = [encoder_out for _, encoder_out in recordings]
    alone = [
        next(search(decoder, row, graph, chunk=1000)) for row, graph in zip(encoded, graphs, strict=True)
    ]
    states = [decoder.open(graph) for graph in graphs]
    done = [0, 0, 0]
    random = np.random.default_rng(5)
    for turn in range(200):
        members = [i for i in range(3) if done[i] < len(encoded[i]) and (i != 1 or turn > 4)]
        sizes = [min(int(random.integers(0, 6)), len(encoded[i]) - done[i]) for i in members]
        chunk = np.full((len(members), 5, small.WIDTH), 7, np.float32)
        for row, i, n in zip(chunk, members, sizes, strict=True):
            row[:n] = encoded[i][done[i] : done[i] + n]
            done[i] += n
        decoder.decode(chunk, [states[i] for i in members], sizes)
    assert done == [len(row) for row in encoded]
    for state, expected in zip(states, alone, strict=True):
        found = decoder.n_best(state)[0]
        assert (found.tokens, found.frames) == (expected.tokens, expected.frames)
        assert found.score == pytest.approx(expected.score, abs=1e-4)
        assert state.frames_seen == len(encoded[states.index(state)])


def test_scores_that_are_no_numbers_change_nothing(folder: Path, recordings: list) -> None:
    decoder = TransducerBeam(small.Networks(folder))
    state = decoder.open()
    decoder.decode(recordings[0][1][None], [state])
    before = decoder.n_best(state, 4)
    with pytest.raises(InferenceError, match="stream 1 of the batch"):
        broken = np.stack([recordings[0][1][:3], np.full((3, small.WIDTH), np.nan, np.float32)])
        decoder.decode(broken, [decoder.open(), state])
    assert decoder.n_best(state, 4) == before
