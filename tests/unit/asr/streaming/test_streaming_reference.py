"""Families that sherpa-onnx does not have, against their networks called by hand, one stream at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kaldi_native_fbank
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from cosyd.asr.streaming.features import FeatureSpec
from cosyd.asr.streaming.model import StreamingModel
from cosyd.asr.streaming.streams import Streams

Audio = NDArray[np.float32]
REPOSITORY = Path(__file__).resolve().parents[4]
OWN = REPOSITORY.parent / "shared" / "models" / "streaming-ctc-tiny"
HISTORY = 240


@pytest.fixture(scope="session")
def own_model() -> Path:
    if not OWN.is_dir():
        pytest.skip(f"no {OWN}")
    return OWN


def fbank(audio: Audio) -> NDArray[np.float32]:
    """All frames of Kaldi's filter banks, asked of the library in one go."""
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0.0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = 80
    options.mel_opts.high_freq = -400.0
    extractor = kaldi_native_fbank.OnlineFbank(options)
    extractor.accept_waveform(16_000, audio.tolist())
    return np.stack([extractor.get_frame(i).copy() for i in range(extractor.num_frames_ready)])


def conv_emformer_tokens(folder: Path, audio: Audio) -> list[int]:
    """icefall's loop, a frame at a time."""
    encoder, decoder, joiner = (
        onnxruntime.InferenceSession(next(folder.glob(f"{role}*.onnx")))
        for role in ("encoder", "decoder", "joiner")
    )
    states = {
        i.name: np.zeros([n if isinstance(n, int) else 1 for n in i.shape], np.float32)
        for i in encoder.get_inputs()[1:]
    }
    frames, tokens = fbank(audio), [-1, 0]
    for start in range(0, len(frames) - 44 + 1, 32):
        out = encoder.run(None, {"x": frames[None, start : start + 44], **states})
        states = dict(zip(states, out[1:], strict=True))
        for frame in out[0][0]:
            context = np.array([tokens[-2:]], np.int64)
            guess = decoder.run(None, {"y": context})[0]
            logit = joiner.run(None, {"encoder_out": frame[None], "decoder_out": guess})[0][0]
            best = int(logit.argmax())
            if best not in (0, 2):  # blank and the unknown word
                tokens.append(best)
    return tokens[2:]


def recognised(folder: Path, clips: list[Audio], cut: int) -> list[tuple[int, ...]]:
    with StreamingModel.load(folder) as model:
        streams = Streams(model, capacity=len(clips))
        slots = [streams.open() for _ in clips]
        for start in range(0, max(map(len, clips)), cut):
            for slot, clip in zip(slots, clips, strict=True):
                streams.push(slot, clip[start : start + cut])
            streams.run(slots)
        for slot in slots:
            streams.end(slot)
        streams.run(slots)
        return [streams.n_best(slot, final=True)[0].tokens for slot in slots]


def padded(folder: Path, clip: Audio) -> Audio:
    with StreamingModel.load(folder) as model:
        tail = Streams(model).tail_samples(len(clip))
    return np.concatenate([clip, np.zeros(tail, np.float32)])


def test_conv_emformer(folder_of: Callable[[str], Path], voices: list[Audio]) -> None:
    folder = folder_of("conv-emformer")
    clips = voices[:3]
    for clip, tokens in zip(clips, recognised(folder, clips, 1_777), strict=True):
        expected = conv_emformer_tokens(folder, padded(folder, clip))
        assert len(expected) >= 5
        assert list(tokens) == expected


def own_scores(folder: Path, audio: Audio) -> NDArray[np.float32]:
    """As the model's README says, in NumPy, with the state carried from step to step."""
    filters = np.load(folder / "mel_filters.npy")
    window = np.hanning(401)[:-1]
    session = onnxruntime.InferenceSession(folder / "encoder.onnx")
    feeds: dict[str, Any] = {
        i.name: np.zeros([n if isinstance(n, int) else 1 for n in i.shape], np.float32)
        for i in session.get_inputs()
        if i.name.endswith("cache")
    }
    heard = np.concatenate([np.zeros(HISTORY, np.float32), audio])
    scores, position = [], 0
    for start in range(0, len(audio) - 5_120 + 1, 5_120):
        piece = heard[start : start + HISTORY + 5_120].astype(np.float64)
        frames = np.stack([piece[i * 160 : i * 160 + 400] * window for i in range(32)])
        mel = np.log10(np.maximum(np.abs(np.fft.rfft(frames)) ** 2 @ filters.T, 1e-10))
        feeds["mel"] = ((np.maximum(mel, -6.5) + 4) / 4).astype(np.float32)[None]
        feeds["pos"] = np.array([position], np.int64)
        names = [o.name for o in session.get_outputs()]
        out = dict(zip(names, session.run(None, feeds), strict=True))
        feeds |= {name: out[name.replace("cache", "out")] for name in feeds if name.endswith("cache")}
        position = int(out["pos_out"][0])
        position = 192 if position > 1_472 else position
        scores.append(out["logp_bpe"][0])
    return np.concatenate(scores)


def test_the_own_format(own_model: Path, voices: list[Audio]) -> None:
    """Over 30 s and more, where positions wrap round."""
    clip = np.concatenate(voices * 2)
    ours = []
    with StreamingModel.load(own_model) as model:
        streams = Streams(model)
        slot = streams.open()
        encode = streams._encode
        streams._encode = lambda *args: ours.append(encode(*args)) or ours[-1]  # type: ignore[method-assign]
        for start in range(0, len(clip), 3_000):
            streams.push(slot, clip[start : start + 3_000])
            streams.run([slot])
        expected = own_scores(own_model, clip)
        assert len(expected) > 25 * 30
        np.testing.assert_allclose(np.concatenate([scores[0] for scores in ours]), expected, atol=2e-3)


def test_real_speech_gives_words_in_order_with_times(own_model: Path, speech: list[Audio]) -> None:
    with StreamingModel.load(own_model) as model:
        streams = Streams(model)
        slot = streams.open(start_s=100.0)
        streams.push(slot, speech[0])
        streams.end(slot)
        streams.run([slot])
        transcript = streams.transcript(slot, final=True)
    assert transcript.text == " ".join(word.w for word in transcript.words)
    assert len(transcript.words) == len(transcript.sure) >= 5
    assert all(100.0 <= word.start < word.end <= 106.0 for word in transcript.words)
    assert [word.start for word in transcript.words] == sorted(word.start for word in transcript.words)


@pytest.mark.parametrize("cut", [1, 159, 160, 4_321])
@pytest.mark.parametrize("kind", ["fbank", "nemo", "log_mel"])
def test_frames_do_not_depend_on_how_the_audio_is_cut(kind: str, cut: int, tmp_path: Path) -> None:
    filters = tmp_path / "filters.npy"
    np.save(filters, np.random.default_rng(0).random((80, 201)).astype(np.float32))
    spec = FeatureSpec(kind, filters=filters)  # type: ignore[arg-type]
    audio = np.random.default_rng(1).standard_normal(4_500).astype(np.float32) * 0.1
    whole, pieces = spec.open(), spec.open()
    whole.accept(audio)
    for start in range(0, len(audio), cut):
        pieces.accept(audio[start : start + cut])
    assert whole.ready == pieces.ready > 20
    np.testing.assert_allclose(pieces.window(20, 0), whole.window(20, 0), atol=1e-5)
    enough = spec.samples_for(whole.ready)
    assert enough <= len(audio) < spec.samples_for(whole.ready + 1)
