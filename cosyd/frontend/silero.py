"""Silero VAD 6 on ONNX Runtime: the probability that a block is speech, many streams at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.stage import Samples, Slots
from cosyd.models.onnx import open_session
from cosyd.spec import FRAME
from cosyd.types import Backend

CONTEXT = 64  # samples of the block before that the network sees again
UNITS = 128  # of its LSTM


class SileroVad:
    """The stage. ``model`` is the published ONNX file (inputs: input, state, sr)."""

    delay = 0

    def __init__(self, model: Path, slots: int, threads: int = 1) -> None:
        self._network = open_session(model, threads=threads)
        self._context = np.zeros((slots, CONTEXT), np.float32)
        self._state = np.zeros((2, slots, UNITS), np.float32)
        self._rate = np.array(FRAME.rate_hz, np.int64)

    @property
    def backend(self) -> Backend:
        return Backend(f"onnxruntime {self._network.device}", "one small recurrent network")

    def reset(self, slots: Slots) -> None:
        self._context[slots] = 0
        self._state[:, slots] = 0

    def process(self, slots: Slots, x: Samples) -> Samples:
        """float32 [n, block] -> probability float32 [n]."""
        heard = np.concatenate((self._context[slots], x), axis=1)
        feeds: dict[str, NDArray[Any]] = {"input": heard, "sr": self._rate, "state": self._state[:, slots]}
        probability, state = self._network.run(feeds)
        self._state[:, slots] = state
        self._context[slots] = x[:, -CONTEXT:]
        return probability[:, 0]
