"""Moonshine's decoder network for one encoded piece of audio: begin, go on, look where it looked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.tokenizer import BOS

Array = NDArray[Any]
Cache = dict[str, Array]  # keys and values of the tokens so far, and of the audio, by the network's names


class Session(Protocol):
    """What is needed of a loaded network (``cosyd.models.onnx.Network``)."""

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def device(self) -> str: ...

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> list[Array]: ...


def log_prob(logits: Array, token: int) -> float:
    """Natural logarithm of a token's probability; ``logits`` [vocabulary]."""
    top = logits.max()
    return float(logits[token] - top - math.log(np.exp(logits - top).sum()))


class Decoder:
    """``context``: tokens of what was said before, which are no part of any result."""

    def __init__(
        self,
        session: Session,
        shape: tuple[int, int],
        hidden: Array,
        samples: int,
        context: tuple[int, ...] = (),
    ) -> None:
        """``shape``: heads and the size of each; ``hidden`` [1, T, size]: ``samples`` of audio."""
        self._session = session
        self.context = context
        self._past = [name for name in session.inputs if name.startswith("past_key_values.")]
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
        """BOS, context and tokens in one run -> logits [len(tokens) + 1, vocabulary] and the cache.

        Row ``i`` of the logits predicts token ``i``.
        """
        names = ["logits", *(_present(name) for name in self._past)]
        logits, *present = self._run([[BOS, *self.context, *tokens]], self._empty, names, use_cache=False)
        return logits[0, len(self.context) :], dict(zip(self._past, present, strict=True))

    def step(self, tokens: Sequence[int], cache: Cache) -> Array:
        """One more token for each row of the cache -> logits [rows, vocabulary]; the cache grows in place.

        The audio's keys and values have one row, which the network spreads over all.
        """
        names = ["logits", *(_present(name) for name in self._growing)]
        logits, *present = self._run([[token] for token in tokens], cache, names, use_cache=True)
        cache.update(zip(self._growing, present, strict=True))
        return np.asarray(logits[:, -1])

    def shorten(self, cache: Cache, tokens: int) -> None:
        """Keep the first ``tokens`` tokens after the context."""
        kept = 1 + len(self.context) + tokens
        for name in self._growing:
            cache[name] = np.ascontiguousarray(cache[name][:, :, :kept])

    def pick(self, cache: Cache, rows: Sequence[int]) -> None:
        """Make these rows of the cache its rows; one may be taken twice."""
        for name in self._growing:
            cache[name] = np.ascontiguousarray(cache[name][list(rows)])

    def attention(self, tokens: Sequence[int], cache: Cache) -> Array:
        """Where the network looks after each of these tokens: [layers * heads, len(tokens) + 1, frames].

        Row ``i`` is a distribution over the frames of the audio, for the moment when ``i`` tokens are said.
        ``cache``: any that this decoder has begun. Needs a network of ``expose_attention``.
        """
        audio = {name: value for name, value in cache.items() if name not in self._growing}
        nothing = {name: self._empty[name] for name in self._growing}
        names = [_present(name) for name in self._keys]
        layers = self._run([[BOS, *self.context, *tokens]], {**audio, **nothing}, names, use_cache=True)
        return np.concatenate([layer[0] for layer in layers])[:, len(self.context) :]

    def _run(
        self,
        tokens: Sequence[Sequence[int]],
        past: Mapping[str, Array],
        outputs: list[str],
        *,
        use_cache: bool,
    ) -> list[Array]:
        feeds: dict[str, Array] = {
            "input_ids": np.array(tokens, np.int64),
            "use_cache_branch": np.array([use_cache]),
            **self._fixed,
            **past,
        }
        return self._session.run(feeds, outputs)


def _present(name: str) -> str:
    return name.replace("past_key_values", "present")
