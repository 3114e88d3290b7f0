"""Moonshine tiny's published files as three networks in standard ONNX and float32, for a GPU.

The encoder, and the two branches of the merged decoder as networks of their own, because no engine of a GPU
takes the node If between them:

* ``encoder``    audio -> hidden;
* ``first``      BOS and any number of tokens over hidden -> logits, the caches, and where each layer looks;
* ``following``  one more token for each row of a cache -> logits and the cache, longer by one.

Which rows of the cache go on is an input (``cache_rows``), so that a beam search moves nothing itself. All of
the audio's tensors have one row, over which the network spreads its rows.

The published weights are 8-bit, and activations are rounded to 8 bits as they come; here only the weights
are, so values are some percent apart and texts are not (docs/engines.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.golden import Best, Close, Golden
from cosyd.engine.network import Network
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.prepared import prepared
from cosyd.engine.profiles import Profile
from cosyd.engine.recipe import Audio, Feeds, Recipe
from cosyd.engine.rewrite import Tap, plain_network

Array = NDArray[Any]
Range = tuple[int, int, int]
Shape = tuple[int | str, ...]

ENCODER, DECODER = "encoder_model.ort", "decoder_model_merged.ort"
LAYERS, HEADS, HEAD_SIZE, HIDDEN, VOCABULARY = 6, 8, 36, 288, 32_768
BOS = 1
SAMPLES: Range = (1_600, 80_000, 480_000)  # 0.1, 5 and 30 s
FRAMES: Range = (2, 207, 1_248)  # what the encoder makes of these
TOKENS: Range = (1, 8, 256)  # 30 s at 6.5 tokens/s, what was said before, and a margin
ROWS: Range = (1, 4, 8)  # of a beam
ROW_INPUT = "cache_rows"
CONVOLUTIONS = ((127, 64), (7, 3), (3, 2))  # the encoder's first layers: samples under each, and its step

_LENGTHS = {"samples": SAMPLES, "frames": FRAMES}
_CACHE_LENGTHS = {"rows": ROWS, "beam": ROWS, "past": TOKENS}
ENCODER_PROFILE = Profile.of({"samples": SAMPLES})
FIRST_PROFILE = Profile.of({**_LENGTHS, "tokens": TOKENS})
FOLLOWING_PROFILE = Profile.of({**_LENGTHS, **_CACHE_LENGTHS})


def _nobody_waits() -> None:
    pass


def frames_of(samples: int) -> int:
    """Frames that the encoder makes of so many samples."""
    for width, step in CONVOLUTIONS:
        samples = (samples - width) // step + 1
    return samples


def cache_names(part: str, layers: int = LAYERS) -> list[str]:
    """``LAYER.PART.key`` and ``.value``; ``part``: decoder or encoder."""
    return [f"{layer}.{part}.{kind}" for layer in range(layers) for kind in ("key", "value")]


def past(name: str) -> str:
    return f"past_key_values.{name}"


def present(name: str) -> str:
    return f"present.{name}"


def attention(layer: int) -> str:
    """[1, heads, tokens, frames]: where that layer looks after each token."""
    return f"attention.{layer}"


# --- the networks ------------------------------------------------------------------------------------------


def encoder(folder: Path) -> bytes:
    """input_values, attention_mask [1, samples] -> last_hidden_state [1, frames, 288]."""
    shapes: dict[str, Shape] = {
        "input_values": (1, "samples"),
        "attention_mask": (1, "samples"),
        "last_hidden_state": (1, "frames", HIDDEN),
    }
    return plain_network(folder / ENCODER, shapes=shapes, name="moonshine-encoder")


def first(folder: Path, layers: int = LAYERS) -> bytes:
    """input_ids [1, tokens], encoder_hidden_states [1, frames, 288], encoder_attention_mask [1, samples] ->
    logits [1, tokens, vocabulary], present.* , attention.*. ``layers``: fewer give no logits."""
    decoder, audio = cache_names("decoder", layers), cache_names("encoder", layers)
    shapes = _shapes(1, "tokens")
    shapes |= {present(name): (1, HEADS, "tokens", HEAD_SIZE) for name in cache_names("decoder")}
    shapes |= {present(name): (1, HEADS, "frames", HEAD_SIZE) for name in cache_names("encoder")}
    taps = [
        Tap(attention(i), f"layers.{i}/encoder_attn/Softmax_output_0", (1, HEADS, "tokens", "frames"))
        for i in range(layers)
    ]
    return plain_network(
        folder / DECODER,
        inputs={"use_cache_branch": np.array([False])},
        outputs=[*_logits(layers), *map(present, decoder + audio), *(tap.name for tap in taps)],
        shapes=shapes,
        taps=taps,
        name="moonshine-first",
    )


def following(folder: Path, layers: int = LAYERS) -> bytes:
    """input_ids [rows, 1], cache_rows [rows], encoder_attention_mask [1, samples], past_key_values.* ->
    logits [rows, 1, vocabulary], present.*.decoder.* one token longer. ``layers``: fewer give no logits."""
    decoder = cache_names("decoder", layers)
    shapes = _shapes("rows", 1)
    shapes |= {past(name): ("beam", HEADS, "past", HEAD_SIZE) for name in cache_names("decoder")}
    shapes |= {past(name): (1, HEADS, "frames", HEAD_SIZE) for name in cache_names("encoder")}
    shapes |= {present(name): ("rows", HEADS, "grown", HEAD_SIZE) for name in cache_names("decoder")}
    return plain_network(
        folder / DECODER,
        inputs={"use_cache_branch": np.array([True])},
        outputs=[*_logits(layers), *map(present, decoder)],
        shapes=shapes,
        picked={ROW_INPUT: ("rows", [past(name) for name in cache_names("decoder")])},
        name="moonshine-following",
    )


def _logits(layers: int) -> list[str]:
    return ["logits"] if layers == LAYERS else []


def _shapes(rows: int | str, tokens: int | str) -> dict[str, Shape]:
    """The file calls the encoder's frames by the name of the audio's samples, and all rows a batch."""
    return {
        "input_ids": (rows, tokens),
        "encoder_hidden_states": (1, "frames", HIDDEN),
        "encoder_attention_mask": (1, "samples"),
        "logits": (rows, tokens, VOCABULARY),
    }


@dataclass(frozen=True)
class Parts:
    """The three networks, ready to be opened."""

    encoder: Network
    first: Network
    following: Network


def moonshine(
    folder: Path, cache: Path, speech: Audio | None = None, alive: Callable[[], None] = _nobody_waits
) -> Parts:
    """Of the published files in ``folder``. ``cache``: where what is made of them is kept. ``speech``: a few
    seconds at 16 kHz, to check other precisions with; without it only float32 is used. ``alive`` is called
    now and then: the first time it takes 15 s on a core.

    Raises ModelMissing, ModelDamaged, OSError.
    """
    made: dict[str, Path] = {}
    for name, (file, make) in _MAKERS.items():
        made[name] = prepared(cache, f"moonshine-{name}", folder / file, partial(make, folder))
        alive()
    golden = _golden(made["encoder"], made["first"], speech)
    profiles = {"encoder": ENCODER_PROFILE, "first": FIRST_PROFILE, "following": FOLLOWING_PROFILE}
    networks = {
        name: Network(
            f"moonshine-{name}", path, None, (profiles[name],), golden.get(name), fill={ROW_INPUT: 0}
        )
        for name, path in made.items()
    }
    return Parts(**networks)


_MAKERS: Mapping[str, tuple[str, Callable[[Path], bytes]]] = {
    "encoder": (ENCODER, encoder),
    "first": (DECODER, first),
    "following": (DECODER, following),
}

# --- is another precision as good? -------------------------------------------------------------------------

WINDOW = 48_000  # samples of each piece of speech that is checked
CHECKED_TOKENS = 8
CLOSE = 0.02  # of hidden; the published network's rounding is twice as far off


def _golden(encoder_file: Path, first_file: Path, speech: Audio | None) -> dict[str, Golden]:
    if speech is None or speech.size < WINDOW:
        return {}

    def golden(feeds: Callable[[Audio], Feeds], decision: Any) -> Golden:
        return Golden(Recipe("", WINDOW, WINDOW, feeds), speech, (decision,))

    return {
        "encoder": golden(_audio_feeds, Close("last_hidden_state", CLOSE)),
        "first": golden(DecoderFeeds(encoder_file, first_file), Best("logits")),
        "following": golden(DecoderFeeds(encoder_file, first_file, following=True), Best("logits")),
    }


def _audio_feeds(audio: Audio) -> Feeds:
    return {"input_values": audio, "attention_mask": np.ones(audio.shape, np.int64)}


@dataclass(frozen=True)
class DecoderFeeds:
    """What a decoder network is given while it hears speech: after so many tokens, greedily chosen in
    float32. ``following``: the second network's inputs, else the first's."""

    encoder: Path
    first: Path
    tokens: int = CHECKED_TOKENS
    following: bool = False

    def __call__(self, audio: Audio) -> Feeds:
        with open_ort_cpu(self.encoder) as network:
            hidden = network.run(_audio_feeds(audio))["last_hidden_state"]
        feeds: dict[str, Array] = {
            "input_ids": np.array([[BOS]]),
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": np.ones(audio.shape, np.int64),
        }
        with open_ort_cpu(self.first) as network:
            for _ in range(self.tokens):
                outputs = network.run(feeds)
                chosen = outputs["logits"][:, -1].argmax(-1)[None]
                feeds["input_ids"] = np.concatenate([feeds["input_ids"], chosen], axis=1)
        return _next_feeds(feeds, outputs) if self.following else feeds


def _next_feeds(feeds: Feeds, outputs: Mapping[str, Array]) -> Feeds:
    names = cache_names("decoder") + cache_names("encoder")
    return {
        **feeds,
        "input_ids": feeds["input_ids"][:, -1:],
        ROW_INPUT: np.zeros(1, np.int64),
        **{past(name): outputs[present(name)] for name in names},
    }
