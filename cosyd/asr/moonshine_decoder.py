"""Moonshine's merged decoder over arrays, for one encoded piece of audio (see ``moonshine_networks``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.tokenizer import BOS
from cosyd.engine.protocol import Engine

Array = NDArray[Any]
Cache = dict[str, Array]  # keys and values of the tokens so far, and of the audio, by the network's names


def log_prob(logits: Array, token: int) -> float:
    """Natural logarithm of a token's probability; ``logits`` [vocabulary]."""
    top = logits.max()
    return float(logits[token] - top - math.log(np.exp(logits - top).sum()))


class HostDecoder:
    """A Decoder. ``context``: tokens of what was said before, which are no part of any result."""

    def __init__(
        self,
        engine: Engine,
        shape: tuple[int, int],
        hidden: Array,
        samples: int,
        context: tuple[int, ...] = (),
    ) -> None:
        """``shape``: heads and the size of each; ``hidden`` [1, T, size]: ``samples`` of audio."""
        self._engine = engine
        self.context = context
        self._past = [spec.name for spec in engine.inputs if spec.name.startswith("past_key_values.")]
        heads, size = shape
        self._empty = {name: np.zeros((1, heads, 0, size), np.float32) for name in self._past}
        self._growing = [name for name in self._past if ".decoder." in name]
        self._keys = [name for name in self._past if name.endswith(".encoder.key")]
        # The mask has the length of the audio in samples: the graph itself brings it down to frames.
        self._fixed = {
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": np.ones((1, samples), np.int64),
        }

    def begin(self, tokens: Sequence[int]) -> tuple[Array, Cache]:
        names = ["logits", *(_present(name) for name in self._past)]
        found = self._run([[BOS, *self.context, *tokens]], self._empty, names, use_cache=False)
        cache = {name: found[_present(name)] for name in self._past}
        return found["logits"][0, len(self.context) :], cache

    def step(self, tokens: Sequence[int], cache: Cache) -> Array:
        """The audio's keys and values have one row, which the network spreads over all."""
        names = ["logits", *(_present(name) for name in self._growing)]
        found = self._run([[token] for token in tokens], cache, names, use_cache=True)
        cache.update((name, found[_present(name)]) for name in self._growing)
        return np.asarray(found["logits"][:, -1])

    def shorten(self, cache: Cache, tokens: int) -> None:
        kept = 1 + len(self.context) + tokens
        for name in self._growing:
            cache[name] = np.ascontiguousarray(cache[name][:, :, :kept])

    def pick(self, cache: Cache, rows: Sequence[int]) -> None:
        for name in self._growing:
            cache[name] = np.ascontiguousarray(cache[name][list(rows)])

    def attention(self, tokens: Sequence[int], cache: Cache) -> Array:
        """Needs a network of ``expose_attention``."""
        audio = {name: value for name, value in cache.items() if name not in self._growing}
        nothing = {name: self._empty[name] for name in self._growing}
        names = [_present(name) for name in self._keys]
        found = self._run([[BOS, *self.context, *tokens]], {**audio, **nothing}, names, use_cache=True)
        return np.concatenate([found[name][0] for name in names])[:, len(self.context) :]

    def _run(
        self,
        tokens: Sequence[Sequence[int]],
        past: Mapping[str, Array],
        outputs: list[str],
        *,
        use_cache: bool,
    ) -> dict[str, Array]:
        feeds: dict[str, Array] = {
            "input_ids": np.array(tokens, np.int64),
            "use_cache_branch": np.array([use_cache]),
            **self._fixed,
            **past,
        }
        return self._engine.run(feeds, outputs)


def _present(name: str) -> str:
    return name.replace("past_key_values", "present")
