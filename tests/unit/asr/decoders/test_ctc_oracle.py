"""CTC prefix beam search against a public decoder, on the scores of a real network for real speech."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import fast_ctc_decode
import numpy as np
import onnxruntime as ort
import pytest
import soundfile

from cosyd.asr.decoders.ctc_beam import CtcBeam

CLIPS = 4
RATE_HZ = 16_000
CHUNK, HISTORY, HOP, WINDOW = 5_120, 240, 160, 400
STATES = ("conv1", "conv2", "k", "v")


def features(samples: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Log-mel energies [32, 80] of one chunk and its history, as the model's README says."""
    window = np.hanning(WINDOW + 1)[:-1]
    frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::HOP] * window
    power = np.abs(np.fft.rfft(frames)) ** 2 @ filters.T
    return ((np.maximum(np.log10(np.maximum(power, 1e-10)), -6.5) + 4) / 4).astype(np.float32)


def run(session: ort.InferenceSession, audio: np.ndarray, filters: np.ndarray) -> dict[str, np.ndarray]:
    """Log-probabilities of word pieces and of characters for a whole recording."""
    shapes = {each.name: each.shape for each in session.get_inputs()}
    feeds = {f"{name}_cache": np.zeros([1, *shapes[f"{name}_cache"][1:]], np.float32) for name in STATES} | {
        "pos": np.zeros(1, np.int64)
    }
    padded = np.concatenate([np.zeros(HISTORY), audio, np.zeros(2 * CHUNK)]).astype(np.float32)
    names = [each.name for each in session.get_outputs()]
    found: dict[str, list[np.ndarray]] = {"logp_bpe": [], "logp_char": []}
    for at in range(0, len(audio) + CHUNK, CHUNK):
        feeds["mel"] = features(padded[at : at + HISTORY + CHUNK], filters)[None]
        out = dict(zip(names, session.run(None, feeds), strict=True))
        for name in found:
            found[name].append(out[name][0])
        feeds |= {f"{name}_cache": out[f"{name}_out"] for name in STATES} | {"pos": out["pos_out"]}
    return {name: np.concatenate(chunks) for name, chunks in found.items()}


@pytest.fixture(scope="module")
def spoken(shared_data: Path) -> list[dict[str, np.ndarray]]:
    folder = shared_data.parent / "models" / "streaming-ctc-tiny"
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(folder / "encoder.onnx"), options)
    filters = np.load(folder / "mel_filters.npy")
    lines = (shared_data / "train" / "librispeech-251-speakers.jsonl").read_text().splitlines()
    wanted = [json.loads(line)["file"] for line in lines[:CLIPS]]
    clips = {}
    with tarfile.open(shared_data / "train" / "librispeech-251-speakers.tar") as archive:
        for member in archive:
            if member.name in wanted and (file := archive.extractfile(member)) is not None:
                clips[member.name] = soundfile.read(io.BytesIO(file.read()))[0]
    return [run(session, clips[name][: 8 * RATE_HZ], filters) for name in wanted]


@pytest.mark.parametrize("output", ["logp_bpe", "logp_char"])
def test_best_hypothesis_is_the_public_decoders(spoken: list[dict[str, np.ndarray]], output: str) -> None:
    decoder = CtcBeam(beam=12, candidates=40, skip_blank=None)
    different = tokens = 0
    for scores in (clip[output] for clip in spoken):
        state = decoder.open()
        for at in range(0, len(scores), 8):
            decoder.decode(scores[None, at : at + 8], [state])
        found = decoder.n_best(state)[0].tokens
        alphabet = [chr(0x4E00 + i) for i in range(scores.shape[1])]
        text, _ = fast_ctc_decode.beam_search(np.exp(scores), alphabet, beam_size=12, beam_cut_threshold=1e-5)
        expected = tuple(ord(c) - 0x4E00 for c in text)
        different += found != expected
        tokens += len(found)
    assert tokens > 100
    assert different == 0


def test_skipping_blanks_finds_the_same_words(spoken: list[dict[str, np.ndarray]]) -> None:
    every, some = CtcBeam(skip_blank=None), CtcBeam(skip_blank=0.999)
    for scores in (clip["logp_bpe"] for clip in spoken):
        states = every.open(), some.open()
        every.decode(scores[None], [states[0]])
        some.decode(scores[None], [states[1]])
        expected, found = every.n_best(states[0])[0], some.n_best(states[1])[0]
        assert (found.tokens, found.frames) == (expected.tokens, expected.frames)
