"""Moonshine's networks as its decoding sees them; and on ONNX Runtime on the processor.

Published are an encoder, a decoder in two branches, one that starts afresh and one that goes on from a cache,
and a vocabulary. What runs is made of these, once (``engine.moonshine_lean``,
``engine.moonshine_growing``, ``engine.moonshine``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from cosyd.asr.moonshine_decoder import HostDecoder
from cosyd.asr.moonshine_hearing import NOTHING, Hearing, heard_at_once
from cosyd.asr.recognizer import Audio
from cosyd.engine.protocol import Engine
from cosyd.errors import ModelDamaged
from cosyd.types import Backend

Array = NDArray[Any]
Result = TypeVar("Result")
Cache = Any  # keys and values of the tokens so far: the decoder's own, whoever searches only hands it back

HEARINGS_KEPT = 8  # sources in which somebody speaks at once; up to 20 MB each; others are heard whole
VOCABULARY_FILE = "tokenizer.bin"


class Decoder(Protocol):
    """The decoder network for one encoded piece of audio. One cache is in use at a time."""

    @property
    def memory(self) -> dict[str, Any]:
        """Whatever decoding wants to find again when ``follow`` goes on from what this decoder has heard."""
        ...

    def begin(self, tokens: Sequence[int]) -> tuple[Array, Cache]:
        """BOS and tokens in one run -> logits [len(tokens) + 1, vocabulary] and the cache.

        Row ``i`` of the logits predicts token ``i``.
        """
        ...

    def resume(self, cache: Cache, known: int, tokens: Sequence[int]) -> tuple[Array, Cache]:
        """As ``begin``, whose first ``known`` tokens are those of another cache and stay -> the logits of
        what follows them, [len(tokens) - known + 1, vocabulary], and a cache; the other one stays, too."""
        ...

    def step(self, tokens: Sequence[int], cache: Cache) -> Array:
        """One more token for each row of the cache -> logits [rows, vocabulary]; the cache grows in place."""
        ...

    def shorten(self, cache: Cache, tokens: int) -> None:
        """Keep the first ``tokens`` tokens of those that it was begun with."""
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

    def listen(self, audio: Audio) -> Decoder:
        """Encode audio; its decoder is good until the next call. Raises InferenceError."""
        ...

    def follow(self, audio: Audio, source: str) -> Decoder:
        """As ``listen``, nearly, for audio that grows: only what the last call for this source had not heard
        yet is encoded, where there is a way to. Raises InferenceError."""
        ...

    def guarded(self, action: Callable[[], Result]) -> Result:
        """Do something that begins with ``listen``; after a fault perhaps again, on other networks.
        Raises InferenceError where nothing helps."""
        ...

    def close(self) -> None:
        """Idempotent."""
        ...


class HostNetworks:
    """On the processor: the networks of ``engine.moonshine_growing`` and ``engine.moonshine_lean``. Owns both
    engines.

    ``reason``: why not on a GPU. Raises ModelDamaged when they are not Moonshine's.
    """

    def __init__(self, name: str, encoder: Engine, decoder: Engine, *, reason: str = "") -> None:
        if not (_takes(encoder, "input_values") and _takes(decoder, "past_key_values.0.encoder.key")):
            raise ModelDamaged(f"{name}: these are not Moonshine's networks; run: cosyd models verify {name}")
        self.attention = any(spec.name == "attention.0" for spec in decoder.outputs)
        self.backend = Backend("cpu", "; ".join(filter(None, ("int8 networks, ONNX Runtime", reason))))
        self._encoder, self._decoder = encoder, decoder
        self._hearings: dict[str, tuple[Hearing, dict[str, Any]]] = {}  # and memories; the newest source last

    def listen(self, audio: Audio) -> HostDecoder:
        return HostDecoder(self._decoder, heard_at_once(self._encoder, audio))

    def follow(self, audio: Audio, source: str) -> HostDecoder:
        known, memory = self._hearings.get(source, (NOTHING, {}))
        if not known.goes_on_in(audio):
            known, memory = NOTHING, {}
        heard, known = known.grown(self._encoder, audio)
        self._hearings.pop(source, None)  # not before: a partial may be stopped in the middle of this run
        self._hearings[source] = known, memory
        if len(self._hearings) > HEARINGS_KEPT:
            del self._hearings[next(iter(self._hearings))]
        return HostDecoder(self._decoder, heard, memory)

    def guarded(self, action: Callable[[], Result]) -> Result:
        return action()

    def close(self) -> None:
        self._hearings.clear()
        self._encoder.close()
        self._decoder.close()


def open_on_processor(folder: Path, name: str, *, threads: int = 1, reason: str = "") -> HostNetworks:
    """From a folder with the published files. ``reason``: why not on a GPU. Raises ModelMissing or
    ModelDamaged. The first time takes some seconds."""
    from cosyd.engine.moonshine_files import lean_files
    from cosyd.engine.ort import open_ort_cpu

    # No arena: every length of audio has another shape, and the arena would keep a piece for each.
    files = lean_files(folder)
    encoder, decoder = (
        open_ort_cpu(file, threads=threads, name=f"{name} {part}") for part, file in files.items()
    )
    return HostNetworks(name, encoder, decoder, reason=reason)


def _takes(engine: Engine, name: str) -> bool:
    return name in {spec.name for spec in engine.inputs}
