"""Small models with random weights in the layout of each family: right names, shapes, order and metadata."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto
from streaming_graphs import (
    BINS,
    DIM,
    VOCABULARY,
    Encoder,
    Graph,
    State,
    encode,
    log_probs,
    save_decoder,
    save_encoder,
    save_graph,
    save_joiner,
    value_info,
)


def zipformer2(chunk: int = 32) -> Encoder:
    layers, dims, heads, kernels, left = (1, 2), (16, 24), (2, 2), (7, 5), (8, 4)
    query, value = (4, 4), (3, 3)
    states = []
    for n, d, h, k, lc, q, v in zip(layers, dims, heads, kernels, left, query, value, strict=True):
        for _ in range(n):
            i = len(states) // 6
            shapes = {
                "cached_key": (lc, -1, q * h),
                "cached_nonlin_attn": (1, -1, lc, 3 * d // 4),
                "cached_val1": (lc, -1, v * h),
                "cached_val2": (lc, -1, v * h),
                "cached_conv1": (-1, d, k // 2),
                "cached_conv2": (-1, d, k // 2),
            }
            states += [State(f"{name}_{i}", f"new_{name}_{i}", shape) for name, shape in shapes.items()]
    states.append(State("embed_states", "new_embed_states", (-1, 128, 3, 19)))
    states.append(State("processed_lens", "new_processed_lens", (-1,), TensorProto.INT64))
    lists = {
        "encoder_dims": dims,
        "query_head_dims": query,
        "value_head_dims": value,
        "num_heads": heads,
        "num_encoder_layers": layers,
        "cnn_module_kernels": kernels,
        "left_context_len": left,
    }
    metadata = {key: ",".join(map(str, values)) for key, values in lists.items()}
    metadata |= {"model_type": "zipformer2", "T": str(chunk + 13), "decode_chunk_len": str(chunk)}
    return Encoder(chunk + 13, chunk, states, metadata)


def zipformer(chunk: int = 32) -> Encoder:
    layers, dims, attention, kernels, left = (1, 2), (16, 12), (8, 12), (7, 5), (8, 4)
    stacks = list(zip(layers, dims, attention, kernels, left, strict=True))
    kinds = {
        "cached_len": [(n, -1) for n, *_ in stacks],
        "cached_avg": [(n, -1, d) for n, d, *_ in stacks],
        "cached_key": [(n, lc, -1, a) for n, _, a, _, lc in stacks],
        "cached_val": [(n, lc, -1, a // 2) for n, _, a, _, lc in stacks],
        "cached_val2": [(n, lc, -1, a // 2) for n, _, a, _, lc in stacks],
        "cached_conv1": [(n, -1, d, k - 1) for n, d, _, k, _ in stacks],
        "cached_conv2": [(n, -1, d, k - 1) for n, d, _, k, _ in stacks],
    }
    states = [
        State(f"{kind}_{i}", f"new_{kind}_{i}", shape, _int(kind == "cached_len"))
        for kind, shapes in kinds.items()
        for i, shape in enumerate(shapes)
    ]
    lists = {
        "encoder_dims": dims,
        "attention_dims": attention,
        "num_encoder_layers": layers,
        "cnn_module_kernels": kernels,
        "left_context_len": left,
    }
    metadata = {key: ",".join(map(str, values)) for key, values in lists.items()}
    metadata |= {"model_type": "zipformer", "T": str(chunk + 7), "decode_chunk_len": str(chunk)}
    return Encoder(chunk + 7, chunk, states, metadata)


def _int(integer: bool) -> int:
    return TensorProto.INT64 if integer else TensorProto.FLOAT


def conformer() -> Encoder:
    states = [
        State("cached_attn", "new_cached_attn", (2, 8, -1, 12)),
        State("cached_conv", "new_cached_conv", (2, 4, -1, 12)),
    ]
    numbers = {
        "num_encoder_layers": 2,
        "T": 39,
        "decode_chunk_len": 32,
        "left_context": 8,
        "encoder_dim": 12,
        "pad_length": 7,
        "cnn_module_kernel": 5,
    }
    metadata = {key: str(value) for key, value in numbers.items()} | {"model_type": "conformer"}
    return Encoder(39, 32, states, metadata, processed="processed_lens")


def lstm() -> Encoder:
    states = [State("h", "next_h", (3, -1, 12)), State("c", "next_c", (3, -1, 20))]
    numbers = {"num_encoder_layers": 3, "T": 9, "decode_chunk_len": 4, "rnn_hidden_size": 20, "d_model": 12}
    metadata = {key: str(value) for key, value in numbers.items()} | {"model_type": "lstm"}
    return Encoder(9, 4, states, metadata)


def conv_emformer() -> Encoder:
    states = []
    for i in range(2):
        shapes = [(4, -1, 12), (8, -1, 12), (8, -1, 12), (-1, 12, 4)]
        states += [State(f"layer{i}_{j}", f"new_layer{i}_{j}", shape) for j, shape in enumerate(shapes)]
    numbers = {
        "decode_chunk_len": 32,
        "T": 44,
        "num_encoder_layers": 2,
        "memory_size": 4,
        "cnn_module_kernel": 5,
        "right_context_length": 8,
        "left_context_length": 8,
        "encoder_dim": 12,
    }
    metadata = {key: str(value) for key, value in numbers.items()} | {"model_type": "conv-emformer"}
    return Encoder(44, 32, states, metadata)


def nemo() -> Encoder:
    states = [
        State("cache_last_channel", "cache_last_channel_next", (-1, 2, 8, 12)),
        State("cache_last_time", "cache_last_time_next", (-1, 2, 12, 4)),
        State("cache_last_channel_len", "cache_last_channel_next_len", (-1,), TensorProto.INT64),
    ]
    numbers = {
        "window_size": 41,
        "chunk_shift": 32,
        "subsampling_factor": 8,
        "vocab_size": VOCABULARY - 1,
        "cache_last_channel_dim1": 2,
        "cache_last_channel_dim2": 8,
        "cache_last_channel_dim3": 12,
        "cache_last_time_dim1": 2,
        "cache_last_time_dim2": 12,
        "cache_last_time_dim3": 4,
    }
    metadata = {key: str(value) for key, value in numbers.items()}
    return Encoder(41, 32, states, metadata, 8, channels_first=True, lengths=True, output="logprobs")


TRANSDUCERS = {
    "zipformer2": zipformer2,
    "zipformer": zipformer,
    "conformer": conformer,
    "lstm": lstm,
    "conv-emformer": conv_emformer,
}
SYMBOLS = ("<blk>", "<sos/eos>", "<unk>")


def save_tokens(path: Path, vocabulary: int = VOCABULARY) -> None:
    """Word pieces, single letters and a few Chinese characters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*SYMBOLS, *(f"▁{c}" for c in letters[:12]), *letters[: vocabulary - 15 - 5], *"你好世界声"]
    lines = [f"{piece} {i}" for i, piece in enumerate(pieces[:vocabulary])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def save_transducer(folder: Path, family: str, *, half: bool = False, **options: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    encoder = TRANSDUCERS[family](**options)
    suffix = ".fp16" if half else ""
    save_encoder(folder / f"encoder-epoch-99-avg-1{suffix}.onnx", encoder, ctc=False, half=half)
    save_decoder(folder / "decoder-epoch-99-avg-1.onnx")
    save_joiner(folder / "joiner-epoch-99-avg-1.onnx")
    save_tokens(folder / "tokens.txt")
    return folder


def save_zipformer2_ctc(folder: Path, chunk: int = 32) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    encoder = zipformer2(chunk)
    encoder.output = "log_probs"
    save_encoder(folder / "ctc-epoch-20-avg-1-chunk-16-left-128.onnx", encoder, ctc=True)
    save_tokens(folder / "tokens.txt")
    return folder


def save_nemo_ctc(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_encoder(folder / "model.onnx", nemo(), ctc=True)
    save_tokens(folder / "tokens.txt")
    return folder


def save_wenet_ctc(folder: Path) -> Path:
    """Its caches have no batch axis, and a mask tells which part of them is filled."""
    folder.mkdir(parents=True, exist_ok=True)
    g = Graph(np.random.default_rng(5))
    blocks, heads, size, kernel = 2, 2, 12, 5
    attention = State("att_cache", "r_att_cache", (blocks, heads, 64, size // heads * 2))
    convolution = State("cnn_cache", "r_cnn_cache", (blocks, 1, size, kernel - 1))
    e = Encoder(67, 64, [attention, convolution], {}, processed="offset", output="log_probs")
    numbers = {
        "head": heads,
        "num_blocks": blocks,
        "output_size": size,
        "cnn_module_kernel": kernel,
        "right_context": 6,
        "subsampling_factor": 4,
        "vocab_size": VOCABULARY,
    }
    hidden = encode(g, e)
    mask = g.op("Cast", "attn_mask", to=TensorProto.FLOAT)
    seen = g.op("ReduceMean", mask, axes=[1, 2], keepdims=1)
    required = g.op("Reshape", g.op("Cast", "required_cache_size", to=TensorProto.FLOAT), g.ints(1, 1, 1))
    scale = g.op("Mul", required, g.constant(np.array(1 / 64, np.float32)))
    hidden = g.add(hidden, g.linear(g.op("Mul", seen, scale), 1, DIM, gain=2.0))
    log_probs(g, hidden, "log_probs")
    inputs = [
        value_info("x", TensorProto.FLOAT, ["N", "T", BINS]),
        value_info("offset", TensorProto.INT64, [1]),
        value_info("required_cache_size", TensorProto.INT64, [1]),
        value_info("att_cache", TensorProto.FLOAT, attention.shape),
        value_info("cnn_cache", TensorProto.FLOAT, convolution.shape),
        value_info("attn_mask", TensorProto.BOOL, [1, 1, "M"]),
    ]
    outputs = [
        value_info("log_probs", TensorProto.FLOAT, ["N", "frames", VOCABULARY]),
        value_info("r_att_cache", TensorProto.FLOAT, attention.shape),
        value_info("r_cnn_cache", TensorProto.FLOAT, convolution.shape),
    ]
    metadata = {key: str(value) for key, value in numbers.items()}
    save_graph(folder / "model-streaming.onnx", g, inputs, outputs, metadata)
    save_tokens(folder / "tokens.txt")
    return folder


CTC = {
    "zipformer2-ctc": save_zipformer2_ctc,
    "nemo-ctc": save_nemo_ctc,
    "wenet-ctc": save_wenet_ctc,
}


def save(folder: Path, family: str) -> Path:
    """A whole folder by the name of a family; ``FAMILY-fp16`` and ``FAMILY-int8`` are smaller files of it."""
    name, _, precision = family.partition("+")
    if name in CTC:
        return CTC[name](folder)
    save_transducer(folder, name, half=precision == "fp16")
    if precision == "int8":
        _quantize(folder)
    return folder


def _quantize(folder: Path) -> None:
    """The usual set: encoder and joiner in int8, the decoder as it is."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    for role in ("encoder", "joiner"):
        file = next(folder.glob(f"{role}*.onnx"))
        quantize_dynamic(file, file.with_suffix(".int8.onnx"), weight_type=QuantType.QInt8)
        file.unlink()
