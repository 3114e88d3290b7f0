"""Moonshine's networks over bound memory: on a GPU, where audio and caches stay.

To the device go audio, tokens and the numbers of rows; back come logits, and at the end of a final where the
layers looked. The cache of a decode is a pair of buffers for each tensor, which change places after each
step; which rows go on is an input of the next step. What the encoder and the first decoder run write is
bound as it is as the next network's input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.moonshine_networks import Result
from cosyd.asr.recognizer import Audio
from cosyd.asr.tokenizer import BOS
from cosyd.engine.memory import Buffer, Memory
from cosyd.engine.moonshine import (
    LAYERS,
    ROW_INPUT,
    attention,
    cache_names,
    frames_of,
    past,
    present,
)
from cosyd.engine.protocol import Engine, Execution
from cosyd.engine.tensors import TensorSpec
from cosyd.types import Backend

Array = NDArray[Any]

_SAID, _HEARD = cache_names("decoder"), cache_names("encoder")
_PAST, _PRESENT = [past(name) for name in _SAID], [present(name) for name in _SAID]
_LOOKED = [attention(layer) for layer in range(LAYERS)]
GROWTH = 1.5  # a buffer that is too small is replaced by one with room for this much more


class _Room:
    """An execution, and buffers bound to it that are replaced by larger ones where a step needs them."""

    def __init__(self, engine: Engine, execution: Execution, stream: int) -> None:
        self.execution = execution
        self._memory, self._stream = engine.memory, stream
        self._specs: dict[str, TensorSpec] = {spec.name: spec for spec in (*engine.inputs, *engine.outputs)}
        self._bound: set[str] = set()
        self.axes = {axis for spec in self._specs.values() for axis in spec.symbols}

    def take(self, names: Sequence[str], sizes: dict[str, int]) -> None:
        """See that there is room in what is bound to these tensors at these sizes."""
        for name in names:
            self.ready(name, self._specs[name].nbytes(sizes))

    def ready(self, name: str, nbytes: int) -> Buffer:
        """What is bound to a tensor; another, with nothing in it, where that is smaller."""
        if name not in self._bound or self.execution.buffer(name).nbytes < nbytes:
            self._memory.synchronize(self._stream)  # what was enqueued may still use the old one
            self.share(name, self._memory.allocate(int(nbytes * GROWTH)))
        return self.execution.buffer(name)

    def share(self, name: str, buffer: Buffer) -> None:
        """Bind what another network has."""
        if name not in self._bound or self.execution.buffer(name) != buffer:
            self._bound.add(name)
            self.execution.bind(name, buffer)

    def read(self, name: str, sizes: dict[str, int]) -> Array:
        spec = self._specs[name]
        return self._memory.read(self.execution.buffer(name), spec.sized(sizes), spec.dtype, self._stream)

    def run(self, feeds: dict[str, Array], sizes: dict[str, int]) -> None:
        """A step at these sizes, once its inputs from the host are there; it may not be done on return."""
        for name, values in feeds.items():
            data = np.ascontiguousarray(values, self._specs[name].dtype)
            self._memory.write(self.ready(name, data.nbytes), data, self._stream)
        self.execution.resize(**{axis: sizes[axis] for axis in self.axes if axis in sizes})
        self.execution.enqueue(self._stream)


@dataclass
class DeviceCache:
    """How much of the buffers is in use: ``rows`` of ``past`` tokens; ``picked``: those that go on."""

    rows: int
    past: int
    picked: tuple[int, ...]


class DeviceNetworks:
    """Networks of ``cosyd.engine.moonshine``, all over one memory. Owns the engines.

    One piece of audio at a time: a decoder is of no use when the next one is listened to.
    """

    attention = True

    def __init__(self, encoder: Engine, first: Engine, following: Engine) -> None:
        self._memory: Memory = encoder.memory
        self._stream = self._memory.stream
        self._engines = (encoder, first, following)
        self._stack = ExitStack()
        for engine in self._engines:
            self._stack.callback(engine.close)
        self.encoder, self.first, self.following = (
            _Room(engine, self._stack.enter_context(engine.execution()), self._stream)
            for engine in self._engines
        )
        for name in _SAID:
            self.following.execution.pair(past(name), present(name))

    @property
    def backend(self) -> Backend:
        """Of the three: they may change over one after the other."""
        backends = [engine.backend for engine in self._engines]
        names = dict.fromkeys(backend.name for backend in backends)
        reasons = dict.fromkeys(backend.reason for backend in backends if backend.reason)
        return Backend(" and ".join(names), "; ".join(["dequantised networks", *reasons]))

    @property
    def engines(self) -> tuple[Engine, ...]:
        return self._engines

    def listen(self, audio: Audio) -> DeviceDecoder:
        sizes = {"samples": audio.size, "frames": frames_of(audio.size)}
        self.encoder.take([present(name) for name in _HEARD], sizes)
        self.encoder.run({"input_values": audio[None]}, sizes)
        return DeviceDecoder(self, sizes)

    def follow(self, audio: Audio, source: str) -> DeviceDecoder:
        """Heard from its beginning, which costs a GPU little."""
        return self.listen(audio)

    def guarded(self, action: Callable[[], Result]) -> Result:
        return action()

    def close(self) -> None:
        self._stack.close()

    # --- for decoders ----------------------------------------------------------------------------------

    def run_first(self, tokens: Sequence[int], sizes: dict[str, int]) -> dict[str, int]:
        """BOS and tokens over what was heard; the caches are then where the following network reads."""
        room, after = self.first, self.following
        sizes = {**sizes, "tokens": len(tokens)}
        self._hear(room)
        room.take(["logits", *_LOOKED], sizes)
        grown = {**sizes, "rows": 1, "beam": 1, "past": len(tokens), "grown": len(tokens) + 1}
        after.take(_PAST, grown)
        for name in _SAID:
            room.share(present(name), after.execution.buffer(past(name)))
        room.run({"input_ids": np.array([tokens])}, sizes)
        return sizes

    def run_following(self, tokens: Sequence[int], cache: DeviceCache, sizes: dict[str, int]) -> Array:
        """Logits [rows, vocabulary]."""
        room, rows = self.following, len(tokens)
        sizes = {**sizes, "rows": rows, "beam": cache.rows, "past": cache.past, "grown": cache.past + 1}
        self._hear(room)
        room.take(["logits", *_PRESENT], sizes)
        room.run({"input_ids": np.array(tokens)[:, None], ROW_INPUT: np.array(cache.picked)}, sizes)
        logits: Array = room.read("logits", sizes)[:, -1]
        return logits

    def logits(self, sizes: dict[str, int]) -> Array:
        """Of the last first run: [tokens, vocabulary]."""
        logits: Array = self.first.read("logits", sizes)[0]
        return logits

    def looked(self, sizes: dict[str, int]) -> Array:
        """Of the last first run: [layers * heads, tokens, frames]."""
        layers = [self.first.read(name, sizes)[0] for name in _LOOKED]
        return np.concatenate(layers)

    def _hear(self, room: _Room) -> None:
        """The decoder's layers look at what the encoder wrote, where it lies."""
        for name in _HEARD:
            room.share(past(name), self.encoder.execution.buffer(present(name)))


class DeviceDecoder:
    """A Decoder."""

    def __init__(self, networks: DeviceNetworks, sizes: dict[str, int]) -> None:
        self._networks = networks
        self._sizes = sizes
        self._begun: tuple[int, ...] = ()
        self.memory: dict[str, Any] = {}

    def begin(self, tokens: Sequence[int]) -> tuple[Array, DeviceCache]:
        sizes = self._first(tokens)
        return self._networks.logits(sizes), DeviceCache(1, sizes["tokens"], (0,))

    def resume(self, cache: DeviceCache, known: int, tokens: Sequence[int]) -> tuple[Array, DeviceCache]:
        """From the beginning: a run over all tokens is on a GPU no longer than one over a few."""
        logits, cache = self.begin(tokens)
        return logits[known:], cache

    def step(self, tokens: Sequence[int], cache: DeviceCache) -> Array:
        logits = self._networks.run_following(tokens, cache, self._sizes)
        cache.rows, cache.past = len(tokens), cache.past + 1
        cache.picked = tuple(range(cache.rows))
        return logits

    def shorten(self, cache: DeviceCache, tokens: int) -> None:
        """Done again with fewer tokens: a run, on a GPU no longer than a step."""
        sizes = self._first(self._begun[:tokens])
        cache.rows, cache.past, cache.picked = 1, sizes["tokens"], (0,)

    def pick(self, cache: DeviceCache, rows: Sequence[int]) -> None:
        cache.picked = tuple(cache.picked[row] for row in rows)

    def attention(self, tokens: Sequence[int], cache: DeviceCache) -> Array:
        return self._networks.looked(self._first(tokens))

    def _first(self, tokens: Sequence[int]) -> dict[str, int]:
        self._begun = tuple(tokens)
        return self._networks.run_first([BOS, *tokens], self._sizes)
