"""The networks that cosyd ships, as TensorRT takes them: what is fixed, which axes are free and how far.

DTLN is not here: the front end builds its two networks itself from the published weights (``frontend.dtln``),
for any number of streams and hops, and those compile as they are; the published first network does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cosyd.engine.network import Network
from cosyd.engine.profiles import Profile
from cosyd.engine.rewrite import plain_network

Range = tuple[int, int, int]

MOST_STREAMS = 64
SILERO_WINDOW = 576  # samples: 64 heard before and 512 new
SILERO_RATE = np.array(16_000, np.int64)

LAYERS, HEADS, HEAD_SIZE, HIDDEN = 6, 8, 36, 288  # of Moonshine tiny
SAMPLES: Range = (1_600, 80_000, 480_000)  # 0.1, 5 and 30 s
FRAMES: Range = (2, 207, 1_248)  # what the encoder makes of these
TOKENS: Range = (1, 8, 200)  # 30 s at 6.5 tokens/s, and a margin


def silero(path: Path, name: str = "silero-vad-6") -> bytes:
    """input [batch, 576], state [2, batch, 128] -> output, stateN; for 16 kHz, without the input ``sr``."""
    return plain_network(path, inputs={"sr": SILERO_RATE}, axes={"sequence": SILERO_WINDOW}, name=name)


SILERO_PROFILE = Profile.of({"batch": (1, 8, MOST_STREAMS)})


def moonshine_encoder(folder: Path) -> Network:
    """input_values, attention_mask [1, samples] -> last_hidden_state [1, frames, 288]."""
    path = folder / "encoder_model.ort"
    profile = Profile.of({"batch_size": (1, 1, 1), "encoder_sequence_length": SAMPLES})
    return Network("moonshine-encoder", path, lambda: plain_network(path), (profile,))


def moonshine_decoder(folder: Path, *, cached: bool, layers: int = LAYERS) -> bytes:
    """One branch of the merged decoder. ``cached``: goes on from a cache, whose decoder part comes back
    longer; otherwise starts afresh and gives the encoder's part too. ``layers``: fewer give no logits."""
    kinds = ("decoder",) if cached else ("decoder", "encoder")
    caches = [
        f"{layer}.{kind}.{part}" for layer in range(layers) for kind in kinds for part in ("key", "value")
    ]
    outputs = [*(["logits"] if layers == LAYERS else []), *(f"present.{cache}" for cache in caches)]
    return plain_network(
        folder / "decoder_model_merged.ort",
        inputs={"use_cache_branch": np.array([cached])},
        outputs=outputs,
        shapes=_decoder_shapes(),
        name="moonshine-decoder",
    )


def _decoder_shapes() -> Mapping[str, tuple[int | str, ...]]:
    """The file calls the encoder's frames by the name of the audio's samples."""
    caches = [f"past_key_values.{i}.encoder.{part}" for i in range(LAYERS) for part in ("key", "value")]
    cache = ("batch_size", HEADS, "frames", HEAD_SIZE)
    return {"encoder_hidden_states": ("batch_size", "frames", HIDDEN), **dict.fromkeys(caches, cache)}


DECODER_PROFILE = Profile.of(
    {
        "batch_size": (1, 1, 1),
        "encoder_sequence_length": SAMPLES,
        "frames": FRAMES,
        "decoder_sequence_length": TOKENS,
        "past_decoder_sequence_length": TOKENS,
    }
)
