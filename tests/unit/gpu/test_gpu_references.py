"""The float64 references against the published networks and kaldi-native-fbank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosyd.errors import ModelDamaged
from cosyd.gpu import pack
from cosyd.gpu.mel import KALDI, WHISPER
from cosyd.gpu.reference import networks, signals
from cosyd.gpu.weights import read_dtln, read_vad
from cosyd.models.graph import read_weights

HOP, WINDOW = 128, 512


def speech(samples: int) -> np.ndarray:
    """Harmonics in syllables over noise: something that moves the networks."""
    rng, t = np.random.default_rng(3), np.arange(samples) / 16_000
    tone = sum(np.sin(2 * np.pi * 140 * k * t + k) / k for k in range(1, 20))
    return (0.1 * tone * np.clip(np.sin(18 * t), 0, 1) + 0.01 * rng.standard_normal(samples)).astype(
        np.float32
    )


@pytest.fixture(scope="module")
def files(models_dir: Path) -> tuple[Path, Path, Path]:
    dtln = models_dir / "dtln"
    vad = models_dir / "silero-vad-6" / "silero_vad_16k_op15.onnx"
    return dtln / "model_1.onnx", dtln / "model_2.onnx", vad


def test_dtln_equals_the_published_networks(files: tuple[Path, Path, Path]) -> None:
    ort = pytest.importorskip("onnxruntime")
    one, two = (ort.InferenceSession(str(path)) for path in files[:2])
    states = [np.zeros((1, 2, 128, 2), np.float32) for _ in range(2)]
    heard, total = np.zeros(WINDOW), np.zeros(WINDOW)
    reference = networks.Dtln(read_dtln(*files[:2]))
    peak = 0.0
    for hop in speech(HOP * 80).reshape(-1, HOP):
        heard = np.concatenate((heard[HOP:], hop))
        spectrum = np.fft.rfft(heard)
        magnitude = np.abs(spectrum)[None, None].astype(np.float32)
        mask, states[0] = one.run(None, {"input_2": magnitude, "input_3": states[0]})
        frame = np.fft.irfft(spectrum * mask[0, 0])[None, None].astype(np.float32)
        out, states[1] = two.run(None, {"input_4": frame, "input_5": states[1]})
        total = np.concatenate((total[HOP:], np.zeros(HOP))) + out[0, 0]
        peak = max(peak, float(np.abs(total[:HOP]).max()))
        np.testing.assert_allclose(reference(hop), total[:HOP], atol=2e-6)
    assert peak > 0.05


def test_vad_equals_the_published_network(files: tuple[Path, Path, Path]) -> None:
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(str(files[2]))
    state, context = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32)
    reference, probabilities = networks.Vad(read_vad(files[2])), []
    for chunk in speech(WINDOW * 40).reshape(-1, WINDOW):
        feeds = {
            "input": np.concatenate((context, chunk))[None],
            "state": state,
            "sr": np.array(16_000, np.int64),
        }
        got, state = session.run(None, feeds)
        context = chunk[-64:]
        probabilities.append(float(got[0, 0]))
        assert reference(chunk) == pytest.approx(probabilities[-1], abs=1e-5)
    assert max(probabilities) > 0.4 > 0.2 > min(probabilities)


def test_kaldi_features_equal_kaldi_native_fbank() -> None:
    knf = pytest.importorskip("kaldi_native_fbank")
    options = knf.FbankOptions()
    options.frame_opts.dither, options.frame_opts.snip_edges, options.frame_opts.samp_freq = 0, False, 16_000
    options.mel_opts.num_bins, options.mel_opts.high_freq = 80, -400
    x = speech(16_000)
    online = knf.OnlineFbank(options)
    online.accept_waveform(16_000, x.tolist())
    got = signals.log_mel(x, KALDI)
    expected = np.array([online.get_frame(i) for i in range(len(got))])
    assert len(got) == KALDI.ready(16_000) == 99
    np.testing.assert_allclose(got, expected, atol=1e-3)


def test_whisper_features_equal_kaldi_native_fbank() -> None:
    """Its Whisper frames lie 80 samples later and are not logarithmic."""
    knf = pytest.importorskip("kaldi_native_fbank")
    online = knf.OnlineWhisperFbank(knf.WhisperFeatureOptions())
    x = speech(16_000)
    online.accept_waveform(16_000, x.tolist())
    got = signals.log_mel(x[80:], WHISPER)[2:95]
    expected = np.array([online.get_frame(i) for i in range(2, 95)])
    np.testing.assert_allclose(10.0**got, expected, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize("design", [KALDI, WHISPER])
def test_the_sparse_table_is_the_bank(design: object) -> None:
    table, weights = design.table()  # type: ignore[attr-defined]
    bank = np.zeros((design.bins, design.fft // 2 + 1), np.float32)  # type: ignore[attr-defined]
    for row, (first, count, offset, _) in zip(bank, table, strict=True):
        row[first : first + count] = weights[offset : offset + count]
    np.testing.assert_array_equal(bank, design.bank().astype(np.float32))  # type: ignore[attr-defined]
    assert (table[:, 1] > 0).all()


def test_weights_read_without_the_onnx_package_are_the_same(files: tuple[Path, Path, Path]) -> None:
    onnx = pytest.importorskip("onnx")
    for path in files:
        graph = onnx.load(str(path)).graph
        mine = read_weights(path)
        for tensor in graph.initializer:
            np.testing.assert_array_equal(mine[tensor.name], onnx.numpy_helper.to_array(tensor))


def test_files_of_the_wrong_kind_are_refused(files: tuple[Path, Path, Path]) -> None:
    with pytest.raises(ModelDamaged, match="not DTLN"):
        read_dtln(files[1], files[0])
    with pytest.raises(ModelDamaged, match="not Silero"):
        read_vad(files[0])


def test_packed_products_are_the_products(files: tuple[Path, Path, Path]) -> None:
    """Columns of four, gates interleaved, padding without effect."""
    lstm = read_dtln(*files[:2]).lstm[0]
    rng = np.random.default_rng(0)
    x, h = rng.standard_normal(257), rng.standard_normal(128)
    expected = np.einsum("i,igu->ug", x, lstm.inputs) + np.einsum("i,igu->ug", h, lstm.hidden)
    line = np.concatenate((x, np.full(288 - 257, 9.0), h))
    for group in (4, 8):
        packed = pack.columns(pack.lstm_matrix(lstm), group)
        got = np.einsum("k,nkc->nc", line, packed).reshape(-1)
        np.testing.assert_allclose(got.reshape(128, 4), expected, rtol=1e-5, atol=1e-5)
    assert pack.columns(np.ones((128, 257), np.float32), 4).shape == (96, 128, 4)


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -3.14159274, 0.0], np.float32)
    back = (pack.to_bfloat16(values).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(back, np.array([1.0, 1.0, 1.015625, -3.140625, 0.0], np.float32))
