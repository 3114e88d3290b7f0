"""An execution that moves from engine to engine with all that is bound to it (see ``managed``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosyd.engine.memory import Buffer
from cosyd.engine.protocol import Execution
from cosyd.engine.staging import StagedExecution

if TYPE_CHECKING:
    from cosyd.engine.managed import ManagedEngine


class ManagedExecution:
    """An Execution that moves from engine to engine with all that is bound to it."""

    def __init__(self, owner: ManagedEngine) -> None:
        self._owner = owner
        self.engine = owner.current
        self._inner = self._open()
        self._bound: set[str] = set()
        self._states: list[tuple[str, str]] = []
        self._sizes: dict[str, int] = {}

    def bind(self, name: str, buffer: Buffer) -> None:
        self._inner.bind(name, buffer)
        self._bound.add(name)

    def state(self, source: str, target: str, /, **sizes: int) -> tuple[Buffer, Buffer]:
        pair = self._inner.state(source, target, **sizes)
        self._bound |= {source, target}
        self._states.append((source, target))
        return pair

    def pair(self, source: str, target: str, /) -> None:
        self._inner.pair(source, target)
        self._states.append((source, target))

    def buffer(self, name: str) -> Buffer:
        return self._inner.buffer(name)

    def resize(self, **sizes: int) -> None:
        self._inner.resize(**sizes)
        self._sizes.update(sizes)

    def prepare(self, stream: int = 0) -> None:
        self._inner.prepare(stream)

    def enqueue(self, stream: int = 0) -> None:
        self._owner.guarded_step(lambda: self._step(stream))

    def close(self) -> None:
        self._inner.close()
        self._owner.forget(self)

    def __enter__(self) -> ManagedExecution:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _step(self, stream: int) -> None:
        if self.engine is not self._owner.current:
            self._move(stream)
        self._inner.enqueue(stream)

    def _move(self, stream: int) -> None:
        """All that is bound goes along; what the old engine still does on the stream comes first."""
        self._owner.memory.synchronize(stream)
        old, self.engine = self._inner, self._owner.current
        self._inner = self._open()
        for name in self._bound:
            self._inner.bind(name, old.buffer(name))
        for source, target in self._states:
            self._inner.pair(source, target)
        self._inner.resize(**self._sizes)
        self._inner.prepare(stream)
        old.close()
        self._owner.moved()

    def _open(self) -> Execution:
        if self.engine.memory.device == self._owner.memory.device:
            return self.engine.execution()
        return StagedExecution(self.engine, self._owner.memory)
