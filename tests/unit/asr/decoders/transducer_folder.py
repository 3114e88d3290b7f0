"""A small streaming transducer with random weights in the files that sherpa-onnx reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import kaldi_native_fbank as knf
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

FRAMES, SHIFT, SUBSAMPLING, WIDTH = 19, 16, 4, 16
UNK = 2
RATE_HZ = 16_000
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def _save(path: Path, nodes: list, inputs: list, outputs: list, weights: dict, metadata: dict) -> None:
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, {key: str(value) for key, value in metadata.items()})
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def _encoder(path: Path, random: np.random.Generator) -> None:
    """Every fourth frame, mixed by a random matrix; the states of an "lstm" go through as they are."""
    nodes = [
        helper.make_node("Slice", ["x", "from", "to", "axis", "every"], ["taken"]),
        helper.make_node("Add", ["taken", "middle"], ["centred"]),
        helper.make_node("MatMul", ["centred", "mix"], ["encoder_out"]),
        helper.make_node("Identity", ["h"], ["next_h"]),
        helper.make_node("Identity", ["c"], ["next_c"]),
    ]
    mix = random.normal(size=(80, WIDTH)) / 4
    weights = {
        "from": np.array([0]),
        "to": np.array([SHIFT]),
        "axis": np.array([1]),
        "every": np.array([SUBSAMPLING]),
        "middle": np.array(9.0, np.float32),
        "mix": (mix - mix.mean(axis=0)).astype(np.float32),  # deaf to loudness
    }
    state = [1, "N", 4]
    _save(
        path,
        nodes,
        [("x", FLOAT, ["N", FRAMES, 80]), ("h", FLOAT, state), ("c", FLOAT, state)],
        [
            ("encoder_out", FLOAT, ["N", SHIFT // SUBSAMPLING, WIDTH]),
            ("next_h", FLOAT, state),
            ("next_c", FLOAT, state),
        ],
        weights,
        {
            "model_type": "lstm",
            "num_encoder_layers": 1,
            "T": FRAMES,
            "decode_chunk_len": SHIFT,
            "rnn_hidden_size": 4,
            "d_model": 4,
        },
    )


def _decoder(path: Path, random: np.random.Generator, vocabulary: int, context_size: int) -> None:
    """An embedding for each position, zero for what comes before the first token."""
    nodes = [
        helper.make_node("Max", ["y", "zero"], ["known"]),
        helper.make_node("Add", ["known", "shift"], ["row"]),
        helper.make_node("Gather", ["table", "row"], ["embedded"]),
        helper.make_node("GreaterOrEqual", ["y", "zero"], ["real"]),
        helper.make_node("Cast", ["real"], ["weight"], to=FLOAT),
        helper.make_node("Unsqueeze", ["weight", "last"], ["mask"]),
        helper.make_node("Mul", ["embedded", "mask"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "middle"], ["decoder_out"], keepdims=0),
    ]
    weights = {
        "zero": np.array(0),
        "shift": np.arange(context_size) * vocabulary,
        "table": random.normal(size=(context_size * vocabulary, WIDTH)).astype(np.float32),
        "last": np.array([2]),
        "middle": np.array([1]),
    }
    _save(
        path,
        nodes,
        [("y", INT64, ["N", context_size])],
        [("decoder_out", FLOAT, ["N", WIDTH])],
        weights,
        {"vocab_size": vocabulary, "context_size": context_size},
    )


def _joiner(path: Path, random: np.random.Generator, vocabulary: int) -> None:
    nodes = [
        helper.make_node("Add", ["encoder_out", "decoder_out"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "out"], ["scores"]),
        helper.make_node("Add", ["scores", "bias"], ["logit"]),
    ]
    bias = np.zeros(vocabulary, np.float32)
    bias[0] = 7.5
    weights = {"out": (random.normal(size=(WIDTH, vocabulary)) * 0.6).astype(np.float32), "bias": bias}
    sizes = ["N", WIDTH]
    _save(
        path,
        nodes,
        [("encoder_out", FLOAT, sizes), ("decoder_out", FLOAT, sizes)],
        [("logit", FLOAT, ["N", vocabulary])],
        weights,
        {"joiner_dim": WIDTH},
    )


def build(folder: Path, vocabulary: int = 40, context_size: int = 2, seed: int = 0) -> None:
    """Token i from 3 on is the character ``chr(ord("a") + i - 3)`` or a following one."""
    random = np.random.default_rng(seed)
    _encoder(folder / "encoder.onnx", random)
    _decoder(folder / "decoder.onnx", random, vocabulary, context_size)
    _joiner(folder / "joiner.onnx", random, vocabulary)
    names = ["<blk>", "<sos/eos>", "<unk>", *(chr(0x4E00 + i) for i in range(vocabulary - 3))]
    lines = [f"{name} {i}" for i, name in enumerate(names)]
    (folder / "tokens.txt").write_text("\n".join(lines) + "\n")


def _session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options)


@dataclass
class Networks:
    """The folder's decoder and joiner as cosyd's searches take them."""

    folder: Path
    context_size: int = 2
    vocabulary: int = 40
    unk: int | None = UNK

    def __post_init__(self) -> None:
        self._decoder = _session(self.folder / "decoder.onnx")
        self._joiner = _session(self.folder / "joiner.onnx")

    def run_decoder(self, contexts: np.ndarray) -> np.ndarray:
        return self._decoder.run(None, {"y": contexts})[0]

    def run_joiner(self, encoder_out: np.ndarray, decoder_out: np.ndarray) -> np.ndarray:
        return self._joiner.run(None, {"encoder_out": encoder_out, "decoder_out": decoder_out})[0]


def encode(folder: Path, audio: np.ndarray) -> np.ndarray:
    """What sherpa-onnx's encoder gives its search for a whole recording, float32 [frames, width]."""
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = 80
    options.mel_opts.high_freq = -400
    features = knf.OnlineFbank(options)
    features.accept_waveform(RATE_HZ, audio.tolist())
    features.input_finished()
    session = _session(folder / "encoder.onnx")
    state = np.zeros((1, 1, 4), np.float32)
    chunks, at = [], 0
    while at + FRAMES < features.num_frames_ready:
        x = np.stack([features.get_frame(at + i) for i in range(FRAMES)])
        chunks.append(session.run(["encoder_out"], {"x": x[None], "h": state, "c": state})[0][0])
        at += SHIFT
    return np.concatenate(chunks)
