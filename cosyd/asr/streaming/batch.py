"""The buffers of a batch of streams: bound once, then stepped without copying or allocating anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.streaming.spec import EncoderSpec
from cosyd.engine.memory import Buffer
from cosyd.engine.protocol import Engine
from cosyd.engine.rows import NOBODY, Lane, Rows, RowShape, RowTable
from cosyd.engine.tensors import Misuse, sizes_of

Array = NDArray[Any]


def zero_feeds(spec: EncoderSpec, engine: Engine, n: int) -> dict[str, Array]:
    """Inputs of the first step of n streams that hear nothing."""
    frames, bins = spec.window, spec.feature.bins
    x = next(each for each in engine.inputs if each.name == spec.x)
    feeds: dict[str, Array] = {
        spec.x: np.zeros((n, bins, frames) if spec.channels_first else (n, frames, bins), x.dtype),
        **spec.extras(np.zeros(n, np.int64)),
    }
    for state in spec.states:
        shape = list(state.shape)
        if state.axis is not None:
            shape[state.axis] = n
        feeds[state.source] = np.zeros(shape, state.dtype)
    return feeds


@dataclass(frozen=True)
class Lengths:
    """Of all free axes, those of outputs too, which no file names reliably: the network has been run.

    ``fixed``: axes that are always so long; ``streams``: those that are as long as the batch. ``output``:
    shape of what one stream gets.
    """

    fixed: Mapping[str, int]
    streams: Collection[str]
    output: tuple[int, ...]

    @classmethod
    def of(cls, engine: Engine, spec: EncoderSpec, *, several: bool) -> Lengths:
        """``several``: the network may take more than one stream. Raises InferenceError, Misuse."""
        one, output = _measured(engine, spec, 1)
        two = _measured(engine, spec, 2)[0] if several else one
        streams = [axis for axis, length in one.items() if two[axis] != length]
        odd = [axis for axis in streams if (one[axis], two[axis]) != (1, 2)]
        if odd:
            raise Misuse(f"{engine.name}: {', '.join(odd)} grows with the batch in a way of its own")
        return cls({axis: n for axis, n in one.items() if axis not in streams}, streams, output)

    def sizes(self, n: int) -> dict[str, int]:
        return {**self.fixed, **dict.fromkeys(self.streams, n)}


def _measured(engine: Engine, spec: EncoderSpec, n: int) -> tuple[dict[str, int], tuple[int, ...]]:
    feeds = zero_feeds(spec, engine, n)
    found = engine.run(feeds)
    shapes = {name: value.shape for name, value in (*feeds.items(), *found.items())}
    sizes = sizes_of(engine.name, (*engine.inputs, *engine.outputs), shapes)
    return sizes, shapes[spec.output][1:]


class Batch:
    """Room for ``size`` streams, and who is in it. Whoever opens closes."""

    def __init__(
        self,
        engine: Engine,
        spec: EncoderSpec,
        size: int,
        lengths: Lengths,
        shapes: Sequence[RowShape],
        stores: Sequence[Buffer],
    ) -> None:
        """``shapes`` and ``stores``: of each of the states."""
        self.size = size
        self.members: tuple[int, ...] = ()
        self._memory, self._spec = engine.memory, spec
        self._shapes, self._stores = shapes, stores
        self._stream = engine.memory.stream
        self._tables: dict[int, RowTable] = {}  # two: the buffers of a state change places
        self._dtypes = {each.name: each.dtype for each in (*engine.inputs, *engine.outputs)}
        self._output_shape = lengths.output
        sizes = lengths.sizes(size)
        with ExitStack() as opened:
            self._execution = opened.enter_context(engine.execution())
            for state in spec.states:
                self._execution.state(state.source, state.target, **sizes)
            paired = {name for state in spec.states for name in (state.source, state.target)}
            for tensor in (*engine.inputs, *engine.outputs):
                if tensor.name not in paired:
                    self._execution.bind(tensor.name, self._memory.allocate(tensor.nbytes(sizes)))
            self._execution.resize(**sizes)
            self._execution.prepare(self._stream)
            opened.pop_all()

    def gather(self, members: tuple[int, ...], fresh: Collection[int]) -> None:
        """Seat these streams, from their rows of the stores; zeros for those in ``fresh``."""
        rows = self._rows(members)
        rows[: len(members)][[slot in fresh for slot in members]] = NOBODY
        self._table().gather(rows, self._stream)
        self.members = members

    def scatter(self) -> None:
        """All states go back to the stores; nobody is left here."""
        members, self.members = self.members, ()
        self._table().scatter(self._rows(members), self._stream)

    def run(self, x: NDArray[np.float32], steps: NDArray[np.int64]) -> Array:
        """A step of the members. Raises InferenceError; the states are then what they were before."""
        if len(steps) < self.size:
            steps = np.concatenate([steps, np.zeros(self.size - len(steps), np.int64)])
        self._write(self._spec.x, x)
        for name, value in self._spec.extras(steps).items():
            self._write(name, value)
        self._execution.enqueue(self._stream)
        output, shape = self._spec.output, (len(x), *self._output_shape)
        return self._memory.read(self._execution.buffer(output), shape, self._dtypes[output], self._stream)

    def close(self) -> None:
        """Idempotent."""
        self._execution.close()
        self._tables.clear()

    def _write(self, name: str, values: Array) -> None:
        values = values.astype(self._dtypes[name], copy=False)
        self._memory.write(self._execution.buffer(name), values, self._stream)

    def _rows(self, members: Sequence[int]) -> Rows:
        """Their rows of the stores; NOBODY behind the last."""
        rows = np.full(self.size, NOBODY, np.int32)
        rows[: len(members)] = members
        return rows

    def _table(self) -> RowTable:
        """Moves rows to and from the buffers that the next step reads."""
        buffers = [self._execution.buffer(state.source) for state in self._spec.states]
        key = buffers[0].address if buffers else 0
        if key not in self._tables:
            lanes = [Lane(*each) for each in zip(self._shapes, self._stores, buffers, strict=True)]
            self._tables[key] = self._memory.row_table(lanes, self.size)
        return self._tables[key]
