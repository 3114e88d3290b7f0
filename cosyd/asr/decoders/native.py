"""The searches' core in C: its records as NumPy sees them, and calls with arrays instead of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decoders import _beam
from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.decoders.hypothesis import Floats, Ints, Mask
from cosyd.errors import InferenceError

MOST = _beam.MOST
Records = NDArray[np.void]

# The structs of beam_core.h, field by field.
NOTE = np.dtype(
    [
        ("parent", "i8"), ("token", "i8"), ("frame", "i8"),
        ("log_prob", "f4"), ("boost", "f4"), ("emitted", "i8"),
    ]
)  # fmt: skip
HYPOTHESIS = np.dtype(
    [
        ("score", "f8"), ("hash", "u8"), ("length", "i8"),
        ("blanks", "i8"), ("phrase", "i8"), ("fresh", "i8"),
    ]
)  # fmt: skip
PREFIX = np.dtype(
    [
        ("blank", "f8"), ("label", "f8"), ("bonus", "f8"), ("hash", "u8"), ("before", "u8"),
        ("last", "i8"), ("phrase", "i8"), ("blank_frame", "i8"), ("label_frame", "i8"),
        ("blank_peak", "f4"), ("label_peak", "f4"), ("boost", "f4"), ("fresh", "i4"),
    ]
)  # fmt: skip

EMPTY = np.uint64(0x9E3779B97F4A7C15)  # hash of no tokens
_FACTOR = np.uint64(0xBF58476D1CE4E5B9)


def extend_hash(hashes: NDArray[np.uint64], tokens: Ints) -> NDArray[np.uint64]:
    """``beam_extend_hash`` of each."""
    mixed = (hashes ^ (tokens.astype(np.uint64) + EMPTY)) * _FACTOR
    return np.asarray(mixed ^ (mixed >> np.uint64(29)), np.uint64)


def blank_notes(frames: int, rows: int, width: int) -> Records:
    """Notes [frames, rows, width] that say: every place holds what it held."""
    notes = np.zeros((frames, rows, width), NOTE)
    notes["parent"] = np.arange(width)
    return notes


def graph_table(graphs: Sequence[ContextGraph | None]) -> Ints:
    """``struct beam_graph`` of each row. The addresses are those of the graphs' own arrays."""
    rows = np.zeros((len(graphs), 7), np.int64)
    for row, graph in zip(rows, graphs, strict=True):
        if graph is not None:
            row[:] = graph.table
    return rows


def require_alive(alive: Mask) -> None:
    """``alive`` [rows, width]. InferenceError for a row without any hypothesis: its scores were NaN."""
    dead = np.flatnonzero(~np.any(alive, axis=1))
    if len(dead):
        raise InferenceError(f"stream {dead[0]} of the batch: the network's scores are no numbers")


class _Core:
    """Keeps what its table points to."""

    def __init__(self, *fields: int | NDArray[Any]) -> None:
        if not all(isinstance(f, int) or f.flags.c_contiguous for f in fields):
            raise ValueError("the core in C needs contiguous arrays")
        self._kept = fields
        self._table = np.array([f if isinstance(f, int) else f.ctypes.data for f in fields], np.int64)
        self._at = self._table.ctypes.data


class TransducerCore(_Core):
    """One chunk of ``rows`` streams with ``width`` places each.

    ``hypotheses`` [rows, width], ``contexts`` int64 [rows, width, context_size] and ``decoder_out`` float32
    [rows, width, joined] change in place; ``notes`` [frames, rows, width] is filled; ``seen`` int64 [rows];
    ``encoder_out`` float32 [rows, frames, E].
    """

    def __init__(
        self,
        hypotheses: Records,
        contexts: Ints,
        decoder_out: Floats,
        graphs: Ints,
        notes: Records,
        seen: Ints,
        encoder_out: Floats,
        *,
        beam: int,
        vocabulary: int,
        unk: int | None,
    ) -> None:
        rows, width, joined = decoder_out.shape
        sizes = (rows, width, beam, contexts.shape[2], joined, vocabulary)
        arrays = (hypotheses, contexts, decoder_out, graphs, notes, seen)
        super().__init__(*sizes, -1 if unk is None else unk, *arrays)
        self._encoder_out = np.ascontiguousarray(encoder_out, np.float32)
        self._vocabulary, self._packed = vocabulary, 0
        self._encoder_at = self._encoder_out.ctypes.data
        self._to_encoder = np.empty((rows * width, encoder_out.shape[2]), np.float32)
        self._to_decoder = np.empty((rows * width, joined), np.float32)
        self._scratch = np.empty(width * max(contexts.shape[2] * 8, joined * 4), np.uint8)
        self._fresh = np.empty(rows * width, np.int64)
        buffers = (self._to_encoder, self._to_decoder, self._scratch, self._fresh)
        self._at_encoder, self._at_decoder, self._at_scratch, self._at_fresh = (
            buffer.ctypes.data for buffer in buffers
        )

    def pack(self, rows: Ints, frame: int) -> tuple[Floats, Floats]:
        """What the joiner is to see of ``frame`` in ``rows`` int64 [n]: [h, E] and [h, joined], one each for
        the hypotheses in order. Valid until the next call. Raises InferenceError when there are too few."""
        _, frames, encoded = self._encoder_out.shape
        self._packed = _beam.transducer_pack(
            self._at, rows.ctypes.data, len(rows), frame, self._encoder_at, frames, encoded,
            self._at_encoder, self._at_decoder,
        )  # fmt: skip
        if self._packed < len(rows):
            raise InferenceError("the network's scores are no numbers")
        return self._to_encoder[: self._packed], self._to_decoder[: self._packed]

    def step(self, rows: Ints, frame: int, logits: Floats, penalty: float, temperature: float) -> Ints:
        """What follows from ``logits`` [h, vocabulary]. Returns the places with new contexts, counted through
        all rows; valid until the next call."""
        logits = np.ascontiguousarray(logits, np.float32)
        if logits.size != self._packed * self._vocabulary:
            raise ValueError(
                f"logits of shape {logits.shape} for {self._packed} of {self._vocabulary} tokens"
            )
        found = _beam.transducer_step(
            self._at, rows.ctypes.data, len(rows), frame, logits.ctypes.data, penalty, temperature,
            self._at_scratch, self._at_fresh,
        )  # fmt: skip
        return self._fresh[:found]


def unwind(notes: Records) -> tuple[Ints, Ints, Records]:
    """Of a chunk's notes [frames, rows, width]: for each place (which one it comes from, how many tokens it
    has emitted, these [rows, width, frames])."""
    frames, rows, width = notes.shape
    events = np.empty((rows, width, frames), NOTE)
    counts, origins = np.empty((rows, width), np.int64), np.empty((rows, width), np.int64)
    arrays = (array.ctypes.data for array in (events, counts, origins))
    _beam.unwind(notes.ctypes.data, frames, rows, width, *arrays)
    return origins, counts, events


class CtcCore(_Core):
    """One chunk: ``scores`` float32 [rows, frames, vocabulary], ``counts`` int64 [rows] of them."""

    def __init__(
        self,
        prefixes: Records,
        graphs: Ints,
        notes: Records,
        seen: Ints,
        scores: Floats,
        counts: Ints,
        *,
        candidates: int,
        blank: int,
    ) -> None:
        rows, width = prefixes.shape
        self._scores = np.ascontiguousarray(scores, np.float32)
        self._counts = np.ascontiguousarray(counts)
        super().__init__(rows, width, candidates, scores.shape[2], blank, prefixes, graphs, notes, seen)

    def run(self, begin: int, end: int, skip: float) -> None:
        """Frames ``begin`` to ``end``; blanks of log-probability ``skip`` or more are passed over."""
        at, counts = self._scores.ctypes.data, self._counts.ctypes.data
        _beam.ctc_chunk(self._at, at, self._scores.shape[1], counts, begin, end, skip)
