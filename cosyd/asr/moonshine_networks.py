"""Moonshine's networks as its decoding sees them; and the published files, on ONNX Runtime on the processor.

Three files: an encoder ``input_values`` [1, N] -> hidden [1, T, 288]; a decoder in two branches, one that
starts afresh with any number of tokens and one that goes on from a cache; a vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.moonshine_decoder import HostDecoder
from cosyd.asr.recognizer import Audio
from cosyd.engine.protocol import Engine
from cosyd.errors import ModelDamaged, ModelMissing
from cosyd.types import Backend

Array = NDArray[Any]
Result = TypeVar("Result")
Cache = Any  # keys and values of the tokens so far: the decoder's own, whoever searches only hands it back

ENCODER_FILE, DECODER_FILE, VOCABULARY_FILE = (
    "encoder_model.ort",
    "decoder_model_merged.ort",
    "tokenizer.bin",
)
TINY = (8, 36)  # attention heads of the decoder and the size of each


class Decoder(Protocol):
    """The decoder network for one encoded piece of audio. One cache is in use at a time."""

    @property
    def context(self) -> tuple[int, ...]:
        """Tokens of what was said before, which are no part of any result."""
        ...

    def begin(self, tokens: Sequence[int]) -> tuple[Array, Cache]:
        """BOS, context and tokens in one run -> logits [len(tokens) + 1, vocabulary] and the cache.

        Row ``i`` of the logits predicts token ``i``.
        """
        ...

    def step(self, tokens: Sequence[int], cache: Cache) -> Array:
        """One more token for each row of the cache -> logits [rows, vocabulary]; the cache grows in place."""
        ...

    def shorten(self, cache: Cache, tokens: int) -> None:
        """Keep the first ``tokens`` tokens after the context, of those that it was begun with."""
        ...

    def pick(self, cache: Cache, rows: Sequence[int]) -> None:
        """Make these rows of the cache its rows; one may be taken twice."""
        ...

    def attention(self, tokens: Sequence[int], cache: Cache) -> Array:
        """Where the network looks after each of these tokens: [layers * heads, len(tokens) + 1, frames].

        Row ``i`` is a distribution over the frames of the audio, for the moment when ``i`` tokens are said.
        ``cache``: any that this decoder has begun; it may be of no use afterwards.
        """
        ...


class Networks(Protocol):
    """Encoder and decoder, wherever they run. For one thread at a time."""

    @property
    def backend(self) -> Backend:
        """What they run on now, and why."""
        ...

    @property
    def attention(self) -> bool:
        """The decoder tells where it looks."""
        ...

    def listen(self, audio: Audio, context: tuple[int, ...] = ()) -> Decoder:
        """Encode audio; its decoder is good until the next call. Raises InferenceError."""
        ...

    def guarded(self, action: Callable[[], Result]) -> Result:
        """Do something that begins with ``listen``; after a fault perhaps again, on other networks.
        Raises InferenceError where nothing helps."""
        ...

    def close(self) -> None:
        """Idempotent."""
        ...


class HostNetworks:
    """The published networks. Owns both engines. Raises ModelDamaged when they are not Moonshine's."""

    def __init__(
        self,
        name: str,
        encoder: Engine,
        decoder: Engine,
        shape: tuple[int, int] = TINY,
        *,
        attention: bool = False,
        reason: str = "",
    ) -> None:
        if not (_takes(encoder, "input_values") and _takes(decoder, "use_cache_branch")):
            raise ModelDamaged(f"{name}: these are not Moonshine's networks; run: cosyd models verify {name}")
        self.attention = attention
        self.backend = Backend("cpu", "; ".join(filter(None, ("int8 networks, ONNX Runtime", reason))))
        self._encoder, self._decoder, self._shape = encoder, decoder, shape
        self._hidden = encoder.outputs[0].name

    def listen(self, audio: Audio, context: tuple[int, ...] = ()) -> HostDecoder:
        feeds: dict[str, Array] = {
            "input_values": audio[None],
            "attention_mask": np.ones((1, audio.size), np.int64),
        }
        hidden = self._encoder.run(feeds)[self._hidden]
        return HostDecoder(self._decoder, self._shape, hidden, audio.size, context)

    def guarded(self, action: Callable[[], Result]) -> Result:
        return action()

    def close(self) -> None:
        self._encoder.close()
        self._decoder.close()


def open_on_processor(folder: Path, name: str, *, threads: int = 1, reason: str = "") -> HostNetworks:
    """From a folder with the published files. ``reason``: why not on a GPU. Raises ModelMissing or
    ModelDamaged."""
    from cosyd.asr.moonshine_attention import expose_attention
    from cosyd.engine.ort import open_ort_cpu

    # No arena: every length of audio has another shape, and the arena would keep a piece for each.
    encoder = open_ort_cpu(folder / ENCODER_FILE, threads=threads)
    network = expose_attention(_read(folder / DECODER_FILE))
    decoder = open_ort_cpu(network, threads=threads, name=DECODER_FILE)
    return HostNetworks(name, encoder, decoder, attention=True, reason=reason)


def _takes(engine: Engine, name: str) -> bool:
    return name in {spec.name for spec in engine.inputs}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelMissing(f"{path}: not there; run: cosyd models pull") from None
