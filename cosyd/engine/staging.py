"""A network over buffers in memory that its engine cannot reach: serves while the GPU's engine is away."""

from __future__ import annotations

from collections.abc import Sequence

from cosyd.engine.execution import Bound, BoundExecution
from cosyd.engine.memory import Memory
from cosyd.engine.protocol import Engine
from cosyd.engine.tensors import Misuse


class StagedExecution(BoundExecution):
    """An engine's network over buffers in other memory, by copies: slow, but the streams go on."""

    def __init__(self, engine: Engine, memory: Memory) -> None:
        super().__init__(engine.name, engine.inputs, engine.outputs, memory)
        self._engine = engine
        self._outputs = [spec.name for spec in engine.outputs]

    def _launch(self, table: int, changed: Sequence[Bound], stream: int) -> None:
        feeds = {}
        for name in self._inputs:
            bound = self._bound(name)
            feeds[name] = self._memory.read(bound.buffer, bound.shape, bound.spec.dtype, stream)
        for name, value in self._engine.run(feeds, self._outputs).items():
            bound = self._bound(name)
            if value.shape != bound.shape:
                raise Misuse(f"{self.name}: {name} is {value.shape}, bound as {bound.shape}")
            self._memory.write(bound.buffer, value, stream)
        self._memory.synchronize(stream)

    def _check_sizes(self, sizes: dict[str, int]) -> None:
        """The engine itself checks when it runs."""

    def _release(self) -> None:
        """Nothing of its own."""
