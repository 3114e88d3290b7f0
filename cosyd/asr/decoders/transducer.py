"""The two small networks of a transducer with a stateless decoder, as its searches see them."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cosyd.asr.decoders.hypothesis import Floats, Ints

BLANK = 0  # in every transducer of this kind; the decoder's context begins with it
FEWEST = 64  # contexts that there is room for from the start
_PADDING = -1  # what stands before it: such decoders embed negative ids as zeros


class TransducerNetworks(Protocol):
    """Batches of any size. ``unk``: id of the unknown word, which is never emitted; None without one."""

    context_size: int
    vocabulary: int
    unk: int | None

    def run_decoder(self, contexts: Ints) -> Floats:
        """int64 [n, context_size], last tokens first to last -> float32 [n, J]."""
        ...

    def run_joiner(self, encoder_out: Floats, decoder_out: Floats) -> Floats:
        """float32 [n, E], float32 [n, J] -> logits, float32 [n, vocabulary], the caller's to overwrite."""
        ...


def first_context(context_size: int) -> Ints:
    """The context before any token."""
    context = np.full(context_size, _PADDING, np.int64)
    context[-1] = BLANK
    return context


class DecoderCache:
    """Outputs of the decoder for the contexts seen last.

    A stateless decoder's output depends on ``context_size`` tokens alone, and few contexts are frequent. When
    the room is used up everything is forgotten: contexts that matter are back within seconds.
    """

    def __init__(self, networks: TransducerNetworks, size: int = 4_096) -> None:
        """``size``: contexts kept; 4,096 outputs of 512 floats are 8 MiB."""
        self._networks = networks
        self._size = size
        self._place: dict[bytes, int] = {}
        self._kept: Floats = np.empty((0, 0), np.float32)

    def __len__(self) -> int:
        return len(self._place)

    def run(self, contexts: Ints) -> Floats:
        """int64 [n, context_size] -> float32 [n, J], the caller's."""
        keys = [row.tobytes() for row in contexts]
        fresh = {key: i for i, key in enumerate(keys) if key not in self._place}
        if fresh:
            outputs = self._compute(contexts[list(fresh.values())])
            if len(self._place) + len(fresh) > self._size:
                return self._after_all(contexts, keys)
            self._keep(list(fresh), outputs)
        return self._kept[[self._place[key] for key in keys]]

    def _after_all(self, contexts: Ints, keys: list[bytes]) -> Floats:
        """The room is used up: begin again with what is asked for now, if that fits."""
        outputs = self._compute(contexts)
        self._place.clear()
        if len(set(keys)) <= self._size:
            self._keep(keys, outputs)
        return outputs

    def _compute(self, contexts: Ints) -> Floats:
        return np.asarray(self._networks.run_decoder(contexts), np.float32).reshape(len(contexts), -1)

    def _keep(self, keys: list[bytes], outputs: Floats) -> None:
        for key in keys:
            self._place.setdefault(key, len(self._place))
        if len(self._place) > len(self._kept):
            kept, rows = self._kept, min(self._size, max(FEWEST, 2 * len(self._place)))
            self._kept = np.empty((rows, outputs.shape[1]), np.float32)
            if len(kept):
                self._kept[: len(kept)] = kept
        self._kept[[self._place[key] for key in keys]] = outputs
