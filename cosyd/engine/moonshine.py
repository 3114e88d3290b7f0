"""Moonshine tiny on a GPU: three networks in standard ONNX and float32, made of the published files.

No engine of a GPU takes a node If whose branches differ in shape, as the published decoder is one, so its
branches are networks of their own (``moonshine_plain`` writes them):

* ``encoder``    audio -> keys and values for each layer of the decoder;
* ``first``      BOS and any number of tokens -> logits, the cache, and where each layer looks;
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
from cosyd.engine.prepared import key_of, prepared
from cosyd.engine.profiles import Profile
from cosyd.engine.recipe import Audio, Feeds, Recipe

Array = NDArray[Any]
Range = tuple[int, int, int]

ENCODER, DECODER = "encoder_model.ort", "decoder_model_merged.ort"
LAYERS, HEADS, HEAD_SIZE, HIDDEN, VOCABULARY = 6, 8, 36, 288, 32_768
BOS = 1
SAMPLES: Range = (1_600, 80_000, 480_000)  # 0.1, 5 and 30 s
FRAMES: Range = (2, 207, 1_248)  # what the encoder makes of these
TOKENS: Range = (1, 8, 256)  # 30 s at 6.5 tokens/s, what was said before, and a margin
ROWS: Range = (1, 4, 20)  # of a beam: the widest of asr.beam, and the paths for hotwords
ROW_INPUT = "cache_rows"
CONVOLUTIONS = ((127, 64), (7, 3), (3, 2))  # the encoder's first layers: samples under each, and its step

PROFILES = {
    "encoder": Profile.of({"samples": SAMPLES}),
    "first": Profile.of({"frames": FRAMES, "tokens": TOKENS}),
    "following": Profile.of({"frames": FRAMES, "rows": ROWS, "beam": ROWS, "past": TOKENS}),
}


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


SUMS, COUNT, MOMENTS = "sums", "count", "moments"  # see ``moonshine_growing``


def attention(layer: int) -> str:
    """[1, heads, tokens, frames]: where that layer looks after each token."""
    return f"attention.{layer}"


# --- the networks ------------------------------------------------------------------------------------------


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
    now and then: the first time it takes some seconds.

    Raises ModelMissing, ModelDamaged, OSError.
    """
    from cosyd.engine import moonshine_plain

    key = key_of((folder / ENCODER, folder / DECODER))
    made: dict[str, Path] = {}
    names = {name: f"moonshine-{name}" for name in PROFILES}
    for name in PROFILES:
        make = partial(getattr(moonshine_plain, name), folder)
        made[name] = prepared(cache, names[name], key, make, beside=names.values())
        alive()
    golden = _golden(made["encoder"], made["first"], speech)
    networks = {
        name: Network(
            f"moonshine-{name}", path, None, (PROFILES[name],), golden.get(name), fill={ROW_INPUT: 0}
        )
        for name, path in made.items()
    }
    return Parts(**networks)


# --- is another precision as good? -------------------------------------------------------------------------

WINDOW = 48_000  # samples of each piece of speech that is checked
CHECKED_TOKENS = 8
CLOSE = 0.02  # of the last layer's keys; the published network's rounding is twice as far off


def _golden(encoder_file: Path, first_file: Path, speech: Audio | None) -> dict[str, Golden]:
    if speech is None or speech.size < WINDOW:
        return {}

    def golden(feeds: Callable[[Audio], Feeds], decision: Any) -> Golden:
        return Golden(Recipe("", WINDOW, WINDOW, feeds), speech, (decision,))

    return {
        "encoder": golden(_audio_feeds, Close(present(f"{LAYERS - 1}.encoder.key"), CLOSE)),
        "first": golden(DecoderFeeds(encoder_file, first_file), Best("logits")),
        "following": golden(DecoderFeeds(encoder_file, first_file, following=True), Best("logits")),
    }


def _audio_feeds(audio: Audio) -> Feeds:
    return {"input_values": audio}


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
            heard = network.run(_audio_feeds(audio))
        audio_cache = {past(name): heard[present(name)] for name in cache_names("encoder")}
        feeds: dict[str, Array] = {"input_ids": np.array([[BOS]]), **audio_cache}
        with open_ort_cpu(self.first) as network:
            for _ in range(self.tokens):
                outputs = network.run(feeds)
                chosen = outputs["logits"][:, -1].argmax(-1)[None]
                feeds["input_ids"] = np.concatenate([feeds["input_ids"], chosen], axis=1)
        return _next_feeds(feeds, outputs) if self.following else feeds


def _next_feeds(feeds: Feeds, outputs: Mapping[str, Array]) -> Feeds:
    return {
        **feeds,
        "input_ids": feeds["input_ids"][:, -1:],
        ROW_INPUT: np.zeros(1, np.int64),
        **{past(name): outputs[present(name)] for name in cache_names("decoder")},
    }
