"""The two small networks of a transducer with a stateless decoder, as its searches see them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

import numpy as np

from cosyd.asr.decoders.hypothesis import Floats, Ints

BLANK = 0  # in every transducer of this kind; the decoder's context begins with it
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

    A stateless decoder's output depends on ``context_size`` tokens alone, and few contexts are frequent.
    """

    def __init__(self, networks: TransducerNetworks, size: int = 4_096) -> None:
        """``size``: contexts kept; 4,096 outputs of 512 floats are 8 MiB."""
        self._networks = networks
        self._size = size
        self._kept: OrderedDict[bytes, Floats] = OrderedDict()

    def run(self, contexts: Ints) -> Floats:
        """int64 [n, context_size] -> float32 [n, J]."""
        keys = [row.tobytes() for row in contexts]
        fresh = {key: i for i, key in enumerate(keys) if key not in self._kept}
        rows = dict(zip(fresh, self._compute(contexts[list(fresh.values())]), strict=True)) if fresh else {}
        out = np.stack([rows[key] if key in rows else self._recall(key) for key in keys])
        self._keep(rows)
        return out

    def _compute(self, contexts: Ints) -> Floats:
        return np.asarray(self._networks.run_decoder(contexts), np.float32).reshape(len(contexts), -1)

    def _recall(self, key: bytes) -> Floats:
        self._kept.move_to_end(key)
        return self._kept[key]

    def _keep(self, rows: dict[bytes, Floats]) -> None:
        self._kept.update((key, row.copy()) for key, row in rows.items())
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
