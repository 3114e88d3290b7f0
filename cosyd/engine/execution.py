"""What every engine's execution has in common: buffers by name, sizes, states that change places.

An engine only adds how a buffer is made known to its library and how a step is launched.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cosyd.engine.memory import Buffer, Memory
from cosyd.engine.tensors import Misuse, TensorSpec


@dataclass(frozen=True)
class Bound:
    """A tensor as the next step sees it."""

    spec: TensorSpec
    buffer: Buffer
    shape: tuple[int, ...]


class BoundExecution(ABC):
    """An Execution. ``tables``: how many sets of bindings the library keeps; with two, one serves the even
    and one the odd steps, and states change places without anything being bound anew."""

    tables = 1

    def __init__(
        self, name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], memory: Memory
    ) -> None:
        self.name = name
        self.specs = {spec.name: spec for spec in (*inputs, *outputs)}
        self._inputs = frozenset(spec.name for spec in inputs)
        self._memory = memory
        self._buffers: dict[str, Buffer] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._sizes: dict[str, int] = {}
        self._states: list[tuple[str, str]] = []
        self._steps = 0
        self._stale: list[set[str]] = [set() for _ in range(self.tables)]
        self._closed = False

    def bind(self, name: str, buffer: Buffer) -> None:
        self._spec(name)
        self._buffers[name] = buffer
        self._mark([name])

    def state(self, source: str, target: str, /, **sizes: int) -> tuple[Buffer, Buffer]:
        ours, theirs = self._spec(source), self._spec(target)
        if source not in self._inputs or target in self._inputs:
            raise Misuse(f"{self.name}: {source} -> {target}: a state goes from an output to an input")
        if ours.dtype != theirs.dtype or len(ours.shape) != len(theirs.shape):
            raise Misuse(f"{self.name}: {target} {theirs} cannot become {source} {ours}")
        pair = self._memory.allocate(ours.nbytes(sizes)), self._memory.allocate(ours.nbytes(sizes))
        self.bind(source, pair[0])
        self.bind(target, pair[1])
        self.pair(source, target)
        return pair

    def pair(self, source: str, target: str, /) -> None:
        self._states.append((source, target))

    def buffer(self, name: str) -> Buffer:
        self._spec(name)
        try:
            return self._buffers[name]
        except KeyError:
            raise Misuse(f"{self.name}: nothing is bound to {name}") from None

    def resize(self, **sizes: int) -> None:
        if all(self._sizes.get(axis) == size for axis, size in sizes.items()):
            return
        wanted = {**self._sizes, **sizes}
        self._check_known(sizes)
        self._check_sizes(wanted)
        moved = [s.name for s in self.specs.values() if any(axis in sizes for axis in s.symbols)]
        self._check_room(moved, wanted)
        self._sizes = wanted
        self._mark(moved)

    def prepare(self, stream: int = 0) -> None:
        self._check_open()

    def enqueue(self, stream: int = 0) -> None:
        self._check_open()
        table = self._steps % self.tables
        changed = self._stale[table]
        bound = [self._bound(name) for name in self._order(changed)]
        if self._steps < self.tables:
            self._check_complete()
        self._launch(table, bound, stream)
        self._stale[table] = set()
        self._swap()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._release()
            self._buffers.clear()

    def __enter__(self) -> BoundExecution:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- what an engine adds ---------------------------------------------------------------------------

    @abstractmethod
    def _launch(self, table: int, changed: Sequence[Bound], stream: int) -> None:
        """Bind what changed in this table since it was last launched, inputs first, then launch a step.
        Raises InferenceError; everything is bound again at the next try."""

    @abstractmethod
    def _release(self) -> None:
        """Give back the library's own objects."""

    @abstractmethod
    def _check_sizes(self, sizes: dict[str, int]) -> None:
        """Raise InferenceError for sizes that the network was not compiled for."""

    # --- the rest --------------------------------------------------------------------------------------

    def _spec(self, name: str) -> TensorSpec:
        try:
            return self.specs[name]
        except KeyError:
            known = ", ".join(self.specs)
            raise Misuse(f"{self.name}: no tensor {name!r}; there are {known}") from None

    def _mark(self, names: Iterable[str]) -> None:
        """These have another address or shape; every table learns of it when its turn comes."""
        names = tuple(names)
        for table in self._stale:
            table.update(names)
        for name in names:
            self._shapes.pop(name, None)

    def _order(self, names: set[str]) -> list[str]:
        return [name for name in self.specs if name in names]

    def _bound(self, name: str) -> Bound:
        spec = self.specs[name]
        buffer = self.buffer(name)
        shape = self._shapes.get(name)
        if shape is None:
            shape = spec.sized(self._sizes)
            self._check_size(spec, shape, buffer)
            self._shapes[name] = shape
        return Bound(spec, buffer, shape)

    def _check_open(self) -> None:
        if self._closed:
            raise Misuse(f"{self.name}: the execution is closed")

    def _check_known(self, sizes: dict[str, int]) -> None:
        known = {axis for spec in self.specs.values() for axis in spec.symbols}
        unknown = sorted(sizes.keys() - known)
        if unknown:
            there = ", ".join(sorted(known)) or "none"
            raise Misuse(f"{self.name}: no free axis {', '.join(unknown)}; there are {there}")

    def _check_room(self, names: Iterable[str], sizes: dict[str, int]) -> None:
        for name in names:
            buffer = self._buffers.get(name)
            spec = self.specs[name]
            if buffer is None or any(axis not in sizes for axis in spec.symbols):
                continue
            self._check_size(spec, spec.sized(sizes), buffer)

    def _check_size(self, spec: TensorSpec, shape: tuple[int, ...], buffer: Buffer) -> None:
        needed = math.prod(shape) * spec.dtype.itemsize
        if needed > buffer.nbytes:
            raise Misuse(
                f"{self.name}: {spec.name} {list(shape)} takes {needed:,} bytes, "
                f"its buffer has {buffer.nbytes:,}"
            )

    def _check_complete(self) -> None:
        missing = [name for name in self.specs if name not in self._buffers]
        if missing:
            raise Misuse(f"{self.name}: nothing is bound to {', '.join(missing)}")

    def _swap(self) -> None:
        """The new states become the inputs of the next step."""
        self._steps += 1
        for source, target in self._states:
            self._buffers[source], self._buffers[target] = self._buffers[target], self._buffers[source]
        if self.tables == 1:
            for pair in self._states:
                self._stale[0].update(pair)
