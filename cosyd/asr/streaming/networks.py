"""Decoder and joiner of a transducer, behind the protocol of its searches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.metadata import Metadata
from cosyd.asr.streaming.ports import Ports
from cosyd.engine.protocol import Engine
from cosyd.errors import ModelDamaged

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Networks:
    """Borrows both engines. Raises ModelDamaged when they are no stateless decoder and joiner."""

    def __init__(self, decoder: Engine, joiner: Engine, unknown: int | None) -> None:
        meta = Metadata(decoder.name, decoder.metadata)
        self.context_size = meta.integer("context_size")
        self.vocabulary = meta.integer("vocab_size")
        self.unk = unknown
        self._decoder, self._joiner = decoder, joiner
        ports = Ports(decoder.name, decoder.inputs, decoder.outputs)
        self._y = ports.take_input("last tokens", (None, self.context_size))
        self._decoder_out = _first_output(decoder)
        ports.finish()
        ports = Ports(joiner.name, joiner.inputs, joiner.outputs)
        self._from_encoder = ports.take_input("encoder output", (None, None))
        self._from_decoder = ports.take_input("decoder output", (None, None))
        self._logit = _first_output(joiner)
        ports.finish()

    def run_decoder(self, contexts: Ints) -> Floats:
        feeds = {self._y.name: contexts.astype(self._y.dtype, copy=False)}
        out = self._decoder.run(feeds, [self._decoder_out])[self._decoder_out]
        return out.reshape(len(contexts), -1).astype(np.float32, copy=False)

    def run_joiner(self, encoder_out: Floats, decoder_out: Floats) -> Floats:
        feeds: dict[str, NDArray[Any]] = {
            self._from_encoder.name: np.ascontiguousarray(encoder_out, self._from_encoder.dtype),
            self._from_decoder.name: np.ascontiguousarray(decoder_out, self._from_decoder.dtype),
        }
        out = self._joiner.run(feeds, [self._logit])[self._logit]
        return out.reshape(len(encoder_out), -1).astype(np.float32, copy=False)


def _first_output(engine: Engine) -> str:
    if not engine.outputs:
        raise ModelDamaged(f"{engine.name}: has no output")
    return engine.outputs[0].name
