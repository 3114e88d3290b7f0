"""The families of encoders that are understood: from metadata to what the engine must know.

Layouts are those of the exports of icefall (zipformer2, zipformer, conformer, lstm, conv-emformer), of wenet
and NeMo for sherpa-onnx, and cosyd's own. Which one a file is, its metadata tells; see docs/models.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.features import INT16_SCALE, FeatureSpec
from cosyd.asr.streaming.metadata import Metadata
from cosyd.asr.streaming.ports import Ports, fixed
from cosyd.asr.streaming.spec import Array, EncoderSpec, StateSpec
from cosyd.errors import ModelDamaged

BINS = 80
WENET_CHUNK = 16  # output frames a step; wenet's metadata does not tell, sherpa-onnx takes these two
WENET_LEFT_CHUNKS = 4


def _common(meta: Metadata, ports: Ports) -> tuple[int, int, FeatureSpec, str, str]:
    """window, shift, features, names of x and of the output: what icefall's exports share."""
    window, shift = meta.integer("T"), meta.integer("decode_chunk_len")
    if window < shift:
        raise ModelDamaged(f"{meta.file}: metadata T={window} is less than decode_chunk_len={shift}")
    if (feature := meta.text("feature")) not in ("", "fbank"):
        raise ModelDamaged(f"{meta.file}: takes {feature} features, cosyd computes Kaldi's filter banks")
    x = ports.take_input("features", (None, window, None))
    output = ports.take_output("encoder output", (None, None, None))
    return window, shift, FeatureSpec(bins=fixed(x, 2, BINS)), x.name, output.name


def zipformer2(meta: Metadata, ports: Ports) -> EncoderSpec:
    """icefall's zipformer: six tensors a layer, then those of the convolutional front."""
    window, shift, feature, x, output = _common(meta, ports)
    layers = meta.integers("num_encoder_layers")
    keys = "encoder_dims query_head_dims value_head_dims num_heads cnn_module_kernels left_context_len"
    lists = [meta.integers(key, len(layers)) for key in keys.split()]
    states: list[StateSpec] = []
    for count, dim, query, value, heads, kernel, left in zip(layers, *lists, strict=True):
        for _ in range(count):
            states += [
                ports.state("cached_key", (left, 1, query * heads), 1),
                ports.state("cached_nonlin_attn", (1, 1, left, 3 * dim // 4), 1),
                ports.state("cached_val1", (left, 1, value * heads), 1),
                ports.state("cached_val2", (left, 1, value * heads), 1),
                ports.state("cached_conv1", (1, dim, kernel // 2), 0),
                ports.state("cached_conv2", (1, dim, kernel // 2), 0),
            ]
    embed = ((feature.bins - 1) // 2 - 1) // 2
    states.append(ports.state("embed_states", (1, 128, 3, embed), 0))
    states.append(ports.state("processed_lens", (1,), 0))
    return EncoderSpec("zipformer2", window, shift, feature, x, output, tuple(states))


def zipformer(meta: Metadata, ports: Ports) -> EncoderSpec:
    """icefall's first streaming zipformer: each kind of tensor for all stacks, then the next kind."""
    window, shift, feature, x, output = _common(meta, ports)
    layers = meta.integers("num_encoder_layers")
    keys = "encoder_dims attention_dims cnn_module_kernels left_context_len"
    lists = [meta.integers(key, len(layers)) for key in keys.split()]
    stacks = list(zip(layers, *lists, strict=True))
    states = [ports.state("cached_len", (count, 1), 1) for count, *_ in stacks]
    states += [ports.state("cached_avg", (count, 1, dim), 1) for count, dim, *_ in stacks]
    for what, part in (("cached_key", 1), ("cached_val", 2), ("cached_val2", 2)):
        states += [
            ports.state(what, (count, left, 1, attention // part), 2)
            for count, _, attention, _, left in stacks
        ]
    for what in ("cached_conv1", "cached_conv2"):
        states += [ports.state(what, (count, 1, dim, kernel - 1), 1) for count, dim, _, kernel, _ in stacks]
    return EncoderSpec("zipformer", window, shift, feature, x, output, tuple(states))


def conformer(meta: Metadata, ports: Ports) -> EncoderSpec:
    """icefall's streaming conformer. ``processed_lens``: frames that a stream has moved on before a step."""
    window, shift, feature, x, output = _common(meta, ports)
    layers, left, dim = (meta.integer(key) for key in ("num_encoder_layers", "left_context", "encoder_dim"))
    kernel = meta.integer("cnn_module_kernel")
    states = (
        ports.state("cached_attn", (layers, left, 1, dim), 2),
        ports.state("cached_conv", (layers, kernel - 1, 1, dim), 2),
    )
    processed = ports.take_input("processed_lens", (None,))

    def extras(steps: NDArray[np.int64]) -> Mapping[str, Array]:
        return {processed.name: (steps * shift).astype(processed.dtype)}

    return EncoderSpec("conformer", window, shift, feature, x, output, states, extras)


def lstm(meta: Metadata, ports: Ports) -> EncoderSpec:
    window, shift, feature, x, output = _common(meta, ports)
    layers = meta.integer("num_encoder_layers")
    states = (
        ports.state("hidden state", (layers, 1, meta.integer("d_model")), 1),
        ports.state("cell state", (layers, 1, meta.integer("rnn_hidden_size")), 1),
    )
    return EncoderSpec("lstm", window, shift, feature, x, output, states)


def conv_emformer(meta: Metadata, ports: Ports) -> EncoderSpec:
    """icefall's convolutional Emformer: memory, left keys and values, and convolution of each layer."""
    window, shift, feature, x, output = _common(meta, ports)
    dim, kernel = meta.integer("encoder_dim"), meta.integer("cnn_module_kernel")
    memory, left = meta.integer("memory_size", 0), meta.integer("left_context_length")
    states: list[StateSpec] = []
    for layer in range(meta.integer("num_encoder_layers")):
        states += [
            ports.state(f"memory of layer {layer}", (memory, 1, dim), 1),
            ports.state(f"left keys of layer {layer}", (left, 1, dim), 1),
            ports.state(f"left values of layer {layer}", (left, 1, dim), 1),
            ports.state(f"convolution of layer {layer}", (1, dim, kernel - 1), 0),
        ]
    return EncoderSpec("conv-emformer", window, shift, feature, x, output, tuple(states), strict=False)


def wenet_ctc(meta: Metadata, ports: Ports) -> EncoderSpec:
    """wenet's CTC branch; its caches have no batch axis, so streams take turns.

    The mask hides the part of the cache that no step has filled yet.
    """
    heads, blocks, size = (meta.integer(key) for key in ("head", "num_blocks", "output_size"))
    kernel, right = meta.integer("cnn_module_kernel"), meta.integer("right_context", 0)
    subsampling = meta.integer("subsampling_factor")
    required = WENET_CHUNK * WENET_LEFT_CHUNKS
    window = (WENET_CHUNK - 1) * subsampling + right + 1
    x = ports.take_input("features", (None, None, None))
    offset, wanted = (ports.take_input(what, (None,)) for what in ("offset", "required_cache_size"))
    attention = ports.take_input("attn_cache", (None, None, None, size // heads * 2))
    convolution = ports.take_input("conv_cache", (None, None, size, None))
    mask = ports.take_input("attn_mask", (None, None, None))
    output = ports.take_output("log_probs", (None, None, None))
    new_attention = ports.take_output("next attn_cache", (None,) * 4)
    new_convolution = ports.take_output("next conv_cache", (None,) * 4)
    shape = (blocks, heads, required, size // heads * 2)
    states = (
        StateSpec(attention.name, new_attention.name, shape, None, attention.dtype),
        StateSpec(
            convolution.name, new_convolution.name, (blocks, 1, size, kernel - 1), None, convolution.dtype
        ),
    )

    def extras(steps: NDArray[np.int64]) -> Mapping[str, Array]:
        done = int(steps[0])
        visible = np.zeros((1, 1, required + WENET_CHUNK), mask.dtype)
        visible[..., max(0, required - done * WENET_CHUNK) :] = 1
        return {
            offset.name: np.array([required + done * WENET_CHUNK], offset.dtype),
            wanted.name: np.array([required], wanted.dtype),
            mask.name: visible,
        }

    return EncoderSpec(
        "wenet-ctc",
        window,
        WENET_CHUNK * subsampling,
        FeatureSpec(bins=fixed(x, 2, BINS), scale=INT16_SCALE),  # wenet trains on the numbers of 16-bit PCM
        x.name,
        output.name,
        states,
        extras,
        subsampling,
    )


def nemo_ctc(meta: Metadata, ports: Ports) -> EncoderSpec:
    """NeMo's cache-aware FastConformer with a CTC head."""
    window, shift = meta.integer("window_size"), meta.integer("chunk_shift")
    x = ports.take_input("features", (None, None, None))
    length = ports.take_input("length", (None,))
    output = ports.take_output("log_probs", (None, None, None))
    ports.take_output("length of log_probs", (None,))
    dims = [
        tuple(meta.integer(f"{kind}_dim{i}") for i in (1, 2, 3))
        for kind in ("cache_last_channel", "cache_last_time")
    ]
    states = (
        ports.state("cache_last_channel", (1, *dims[0]), 0),
        ports.state("cache_last_time", (1, *dims[1]), 0),
        ports.state("cache_last_channel_len", (1,), 0),
    )

    def extras(steps: NDArray[np.int64]) -> Mapping[str, Array]:
        return {length.name: np.full(len(steps), window, length.dtype)}

    return EncoderSpec(
        "nemo-ctc",
        window,
        shift,
        FeatureSpec("nemo", fixed(x, 1, BINS)),
        x.name,
        output.name,
        states,
        extras,
        meta.integer("subsampling_factor"),
        channels_first=True,
    )


_LAST_POSITION = 1_472  # of the positions that cosyd's own encoder knows: 1,484, in steps of 16 frames
_FIRST_AGAIN = 192  # as far back as its left context, so that what it attends to stays the same


def cosyd_ctc(meta: Metadata, ports: Ports, filters: Path) -> EncoderSpec:
    """cosyd's own export: names tell what is what. Positions count frames of its inside, 50 a second."""
    x, position = ports.named_input("mel"), ports.named_input("pos")
    output = ports.named_output("logp_bpe")
    pairs = {kind: (f"{kind}_cache", f"{kind}_out") for kind in ("conv1", "conv2", "k", "v")}
    if x is None or position is None or output is None:
        raise ModelDamaged(f"{meta.file}: lacks mel, pos or logp_bpe; it is no streaming encoder of cosyd's")
    states = tuple(_named_state(meta.file, ports, *pair) for pair in pairs.values())
    window = fixed(x, 1, 32)
    step = window // 2  # frames at 50/s

    def extras(steps: NDArray[np.int64]) -> Mapping[str, Array]:
        first, last = _FIRST_AGAIN // step, _LAST_POSITION // step
        wrapped = np.where(steps <= last, steps, first + (steps - first) % (last - first + 1))
        return {position.name: (wrapped * step).astype(position.dtype)}

    feature = FeatureSpec("log_mel", fixed(x, 2, BINS), filters=filters)
    return EncoderSpec(
        "cosyd-ctc", window, window, feature, x.name, output.name, states, extras, strict=False
    )


def _named_state(file: str, ports: Ports, source: str, target: str) -> StateSpec:
    found, new = ports.named_input(source), ports.named_output(target)
    if found is None or new is None:
        raise ModelDamaged(f"{file}: lacks {source} or {target}; it is no streaming encoder of cosyd's")
    lengths = found.shape[1:]
    if any(isinstance(length, str) for length in lengths):
        raise ModelDamaged(f"{file}: {source} is {found}; only its first axis may be free")
    return StateSpec(source, target, (1, *(int(n) for n in lengths)), 0, found.dtype)


_ICEFALL: dict[str, Callable[[Metadata, Ports], EncoderSpec]] = {
    "zipformer2": zipformer2,
    "zipformer": zipformer,
    "conformer": conformer,
    "lstm": lstm,
    "conv-emformer": conv_emformer,
}
FAMILIES = (*_ICEFALL, "wenet-ctc", "nemo-ctc", "cosyd-ctc")


def describe(meta: Metadata, ports: Ports, filters: Path | None = None) -> EncoderSpec:
    """The encoder that this file is. Raises ModelDamaged, in one line, for what cosyd cannot run."""
    model_type = meta.text("model_type")
    if model_type in _ICEFALL:
        spec = _ICEFALL[model_type](meta, ports)
    elif "cache_last_channel_dim1" in meta:
        spec = nemo_ctc(meta, ports)
    elif "cnn_module_kernel" in meta and "right_context" in meta:
        spec = wenet_ctc(meta, ports)
    elif filters is not None:
        spec = cosyd_ctc(meta, ports, filters)
    else:
        named = f"model_type={model_type!r}" if model_type else "no model_type"
        raise ModelDamaged(
            f"{meta.file}: its metadata has {named}; cosyd runs the streaming models {', '.join(FAMILIES)}"
        )
    ports.finish()
    return spec
