"""Moonshine's decoder over arrays, for one encoded piece of audio (see ``moonshine_networks``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.tokenizer import BOS
from cosyd.engine.protocol import Engine

Array = NDArray[Any]
Cache = dict[str, Array]  # keys and values of the tokens so far, by the network's names of its inputs

_PAST, _PRESENT, _ATTENTION = "past_key_values.", "present.", "attention."


def log_prob(logits: Array, token: int) -> float:
    """Natural logarithm of a token's probability; ``logits`` [vocabulary]."""
    top = logits.max()
    return float(logits[token] - top - math.log(np.exp(logits - top).sum()))


class HostDecoder:
    """A Decoder for one encoded piece of audio; ``heard``: the keys and values of its frames.

    The audio's keys and values have one row, over which the network spreads the rows of a beam.
    """

    def __init__(
        self,
        engine: Engine,
        heard: Mapping[str, Array],
        memory: dict[str, Any] | None = None,
    ) -> None:
        self._engine = engine
        self.memory = {} if memory is None else memory
        self._heard = {name.replace(_PRESENT, _PAST): value for name, value in heard.items()}
        past = [spec for spec in engine.inputs if spec.name.startswith(_PAST)]
        self._growing = [spec.name for spec in past if spec.name not in self._heard]
        _, heads, _, size = next(iter(self._heard.values())).shape
        self._nothing = {name: np.zeros((1, heads, 0, size), np.float32) for name in self._growing}
        names = [spec.name for spec in engine.outputs]
        self._looks = [name for name in names if name.startswith(_ATTENTION)]

    def begin(self, tokens: Sequence[int]) -> tuple[Array, Cache]:
        cache = dict(self._nothing)
        logits = self._grow([[BOS, *tokens]], cache)
        return logits[0], cache

    def resume(self, cache: Cache, known: int, tokens: Sequence[int]) -> tuple[Array, Cache]:
        # With BOS, without the last of the known tokens: it is run again.
        cache = {name: value[:, :, :known] for name, value in cache.items()}
        logits = self._grow([tokens[known - 1 :]], cache)
        return logits[0], cache

    def step(self, tokens: Sequence[int], cache: Cache) -> Array:
        return self._grow([[token] for token in tokens], cache)[:, -1]

    def shorten(self, cache: Cache, tokens: int) -> None:
        kept = 1 + tokens
        for name, value in cache.items():
            cache[name] = np.ascontiguousarray(value[:, :, :kept])

    def pick(self, cache: Cache, rows: Sequence[int]) -> None:
        for name, value in cache.items():
            cache[name] = np.ascontiguousarray(value[list(rows)])

    def attention(self, tokens: Sequence[int], cache: Cache) -> Array:
        found = self._run([[BOS, *tokens]], self._nothing, self._looks)
        return np.concatenate([found[name][0] for name in self._looks])

    def _grow(self, tokens: Sequence[Sequence[int]], cache: Cache) -> Array:
        """Logits [rows, tokens, vocabulary]; the cache has these tokens, too, from now on."""
        present = {name: name.replace(_PAST, _PRESENT) for name in self._growing}
        found = self._run(tokens, cache, ["logits", *present.values()])
        cache.update((name, found[grown]) for name, grown in present.items())
        return found["logits"]

    def _run(
        self, tokens: Sequence[Sequence[int]], past: Mapping[str, Array], outputs: Sequence[str]
    ) -> dict[str, Array]:
        return self._engine.run({"input_ids": np.array(tokens, np.int64), **self._heard, **past}, outputs)
